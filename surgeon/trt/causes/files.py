"""What is wrong with a file, as the parser and ONNX Runtime say it."""

from __future__ import annotations

from surgeon.trt.causes.cause import CHECK, HALF, REWRITE, Cause, Weight

ROWS: tuple[Cause, ...] = (
    Cause(
        "git-lfs-pointer",
        (r'has no field named "version"', r"version https://git-lfs"),
        "The file is not the model: it is the pointer that git-lfs leaves in its place, some 130 bytes of text.",
        "Fetch the model itself. A web page's button 'Download raw file' gives it, too.",
        "git lfs install && git lfs pull",
    ),
    Cause(
        "web-page",
        (r'has no field named "(?:html|DOCTYPE|head|a)"', r"1:1: Expected identifier, got: <"),
        "The file is a web page, not a model: the download led to a page of the site.",
        "Download the file to which the page's button leads, and see that it has the expected size.",
        "curl -L -o MODEL.onnx URL",
    ),
    Cause(
        "not-a-model",
        (
            r"Error parsing text-format \S*ModelProto",
            "Invalid control characters encountered in text",
            r"Protobuf parsing failed|INVALID_PROTOBUF|InvalidProtobuf",
            r"Unable to parse proto from file",
            r"google\.protobuf\.message\.DecodeError|Error parsing message(?: with type '?onnx)?",
            r"Failed to parse ONNX model\. Does the model file exist",
        ),
        "The file is not an ONNX model. It is PyTorch's own weights (.pt), a pointer of git-lfs, a web page, or a "
        "download that was cut off.",
        "surgeon check prints which of these it is. Export .pt with torch.onnx.export; download a broken file again.",
        CHECK,
    ),
    Cause(
        "model-missing",
        (r"(?:could not|failed to|unable to) open file:? \S*\.onnx\b", r"NO_SUCHFILE|File doesn't exist"),
        "There is no file at this path: it is relative to the folder in which the program runs.",
        "Give the whole path.",
        "ls -l {model}",
    ),
    Cause(
        "external-data-missing",
        (
            r"Failed to open file: ",
            r"should be stored in .*but it doesn't exist or is not accessible",
            r"[Ee]xternal data (?:file|path).*(?:not exist|not found|validation failed|escapes)",
            r"model_path must not be empty.*external",
            r"tensor shape size\(\d+\) does not match the data size\(0\)",
        ),
        "The weights are in another file (model.onnx.data, or one for each tensor), and that file is not beside the "
        "model; or the program got the bytes of the model and not its path.",
        "Copy all files into one folder, and give the parser the path: parse_from_file, not parse. surgeon writes one "
        "file for the weights.",
        REWRITE,
    ),
    Cause(
        "ir-version",
        (r"Unsupported model IR version: \d+, max supported IR version",),
        "The model was written with a newer onnx package than this ONNX Runtime knows.",
        "Update ONNX Runtime; else set model.ir_version to the number that it supports, and save the model again.",
        "pip install --upgrade onnxruntime-gpu",
    ),
    Cause(
        "ir-version",
        (r"newer ir_version .*than this parser was built against",),
        "The model was written with a newer onnx package than this parser. In most cases that does no harm.",
        "If the parser then fails: export with an older opset, or use a newer TensorRT.",
        CHECK,
        Weight.HINT,
    ),
    Cause(
        "opset-too-new",
        (
            r"only \*?guarantees\*? support for models stamped with official released onnx opset",
            r"Opset \d+ is under development and support for this is limited",
        ),
        "The opset of the model is newer than this ONNX Runtime.",
        "Update ONNX Runtime, or export with an opset that it knows.",
        "pip install --upgrade onnxruntime-gpu",
    ),
    Cause(
        "unsorted-nodes",
        (
            r"must be topologically sorted",
            r"is not (?:the )?output of any previous node",
            "not output of any previous nodes",
        ),
        "A node is listed before the one that computes its input. ONNX requires the other order; converters to fp16 "
        "break it when they add a Cast.",
        "surgeon sorts the nodes. To convert to fp16 use surgeon --fp16 on the fp32 model.",
        REWRITE,
    ),
    Cause(
        "duplicate-names",
        (
            r"Duplicate definition of name",
            r"must be in single static assignment \(SSA\) form",
            r"has been used as (?:graph input|output|initializer)? ?names multiple times",
        ),
        "Two tensors of the model have one name, so it is not clear which one a node reads.",
        "surgeon repairs it where the two are equal, or where only one order of the nodes is possible. Else export "
        "again, without the optimizer that joined the names.",
        REWRITE,
    ),
    Cause(
        "resize-both",
        (r"[Ee]ither [`'\"]?(?:sizes|scales)[`'\"]? or [`'\"]?(?:sizes|scales)[`'\"]? must be (?:provided|specified)",),
        "A Resize has both scales and sizes, which ONNX forbids. Converters to fp16 leave it so.",
        "Remove the scales: surgeon does. To convert to fp16 use surgeon --fp16 on the fp32 model.",
        REWRITE,
    ),
    Cause(
        "invalid-types",
        (
            r"Type 'tensor\(\w+\)' of input parameter \(.*?\) of operator \(\w+\) in node",
            r"Type \(tensor\(\w+\)\) of output arg \(.*?\) of node .*does not match expected type",
            r"Type parameter \(\w+\) of Optype \(\w+\) bound to different types",
        ),
        "A tensor has a type that the operator does not have in ONNX, or that is not the declared one. Converters to "
        "fp16 leave such types at Resize, Range and CumSum.",
        "surgeon corrects a declared type. To convert to fp16 use surgeon --fp16 on the fp32 model: it keeps these "
        "operators in fp32.",
        HALF,
    ),
    Cause(
        "custom-operator",
        (
            r"is not a registered function/op",
            r"No Op registered for \w+ with domain_version",
            r"No Schema registered for",
        ),
        "ONNX Runtime does not know an operator of the model: it belongs to another library, or the opset is "
        "older than the operator.",
        "Register the library (SessionOptions.register_custom_ops_library), or see whether surgeon rewrites it.",
        CHECK,
    ),
    Cause(
        "ort-not-implemented",
        (
            r"NOT_IMPLEMENTED.*Could not find an implementation for",
            r"Failed to find kernel for|kernel is not supported in",
        ),
        "ONNX Runtime has no kernel for this operator in these types, mostly fp16 or bfloat16 on the CPU. TensorRT may "
        "have one.",
        "See what TensorRT supports; ONNX Runtime's own run needs the fp32 model.",
        CHECK,
        Weight.GENERAL,
    ),
    Cause(
        "unreadable-weights",
        (r"convert_?onnx_?weights\(",),
        "The parser cannot read an initializer: its type is unknown to this release (double, uint8), or its data is in "
        "another file that is not beside the model.",
        "Keep external data beside the model and give the parser its path; cast initializers to float32 or int32.",
        CHECK,
    ),
    Cause(
        "file-above-2gb",
        (r"exceed(?:s|ed) maximum protobuf size", "larger than 2147483647 bytes.*halted"),
        "A model in one file cannot be larger than 2 GiB.",
        "Save it with the weights in a file beside it, and give programs the path instead of the bytes; "
        "surgeon does so.",
        REWRITE,
    ),
    Cause(
        "unknown-tensor",
        (r"tensors(?:\(\))?\.count\(input_?name\)",),
        "A node reads a name that the parser has not met. Up to TensorRT 6 it knows initializers only as inputs of the "
        "graph, as ONNX IR version 3 wrote them; 7.0 fails at inputs that are left out, such as Resize's roi.",
        "Export with keep_initializers_as_inputs=True, or use TensorRT 7.1 or later.",
        CHECK,
    ),
    Cause(
        "constant-output",
        (r"tensors\(\)\.at\(output\.name\(\)\)\.is_tensor\(\)",),
        "An output of the model is a constant, which this parser does not support.",
        "Leave that output out: its value does not depend on the input.",
        CHECK,
    ),
)
