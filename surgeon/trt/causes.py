"""What TensorRT, its parser and ONNX Runtime's provider print, what it means, and what helps: one row a cause.

`surgeon why` reads a log with this table, and the documentation can be made from it. A pattern is a regular expression
for a part of a line, without regard to case. Where several causes speak of a log, the one of the most weight answers;
of the same weight, the one of the line that came first; and in one line the row that is first here.

The commands that fix it may have {model} and {target} in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

REWRITE = "surgeon rewrite {model} OUT.onnx --target {target}"
CHECK = "surgeon check {model} --target {target}"
PROFILE = "trtexec --onnx={model} --minShapes=x:1x3x64x64 --optShapes=x:4x3x256x256 --maxShapes=x:8x3x512x512"
SHAPES = "python -m onnxruntime.tools.symbolic_shape_infer --input {model} --output OUT.onnx --auto_merge"
COMPARE = "surgeon compare {model} OUT.onnx --bisect DIR"


class Weight(IntEnum):
    """How much a line says: HINT is a warning or a consequence, OPEN says where and not what, GENERAL leaves the cause
    open, ERROR names it."""

    HINT = 1
    OPEN = 2
    GENERAL = 3
    ERROR = 4


@dataclass(frozen=True)
class Cause:
    """One cause: what the log has, what that means, what to do about it, and what to type."""

    name: str
    patterns: tuple[str, ...]
    means: str
    helps: str
    command: str = ""
    weight: Weight = Weight.ERROR

    @cached_property
    def search(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{p})" for p in self.patterns), re.IGNORECASE)


CAUSES: tuple[Cause, ...] = (
    # ---- plugins and operators ---------------------------------------------------------------------------------------
    Cause(
        "plugins-not-initialised",
        (
            "InstanceNormalization plugin was not found in the plugin registry",
            r"(?:could not find|cannot find) plugin:? *[A-Za-z]+_TRT\b",
        ),
        "A plugin of NVIDIA's own library is not registered: libnvinfer_plugin is not loaded, or this release does not "
        "have it any more.",
        "Load the library before parsing or deserializing: initLibNvInferPlugins in C++, "
        "trt.init_libnvinfer_plugins(logger, '') in Python; or write the operator without a plugin.",
        REWRITE,
    ),
    Cause(
        "plugin-fields",
        (r"scale\.count == bias\.count", r"Attribute \w+ not found in plugin node"),
        "A plugin node lacks an attribute that the plugin takes as a field.",
        "Write the operator as ONNX has it, and let surgeon make the plugin node, or none.",
        REWRITE,
    ),
    Cause(
        "missing-plugin",
        (
            "Plugin not found, are the plugin name, version, and namespace correct",
            r"getPluginCreator could not find plugin",
            r"Cannot find plugin: \w+",
            r"UNSUPPORTED_NODE: No importer registered for op: \w+",
        ),
        "The parser has no importer for an operator, and no plugin of that name is registered.",
        "For an operator of ONNX: write it with operators that this release has. For an operator of a library such as "
        "mmdeploy: load that library.",
        "trtexec --onnx={model} --staticPlugins=LIB.so",
    ),
    Cause(
        "missing-plugin",
        (r"No importer registered for op: \w+", r"No checker registered for op: \w+"),
        "The parser has no importer for an operator, and takes it for a plugin.",
        "Where the plugin is then found, nothing is wrong. Else see whether this release has the operator.",
        CHECK,
        Weight.GENERAL,
    ),
    Cause(
        "plugin-refused",
        (
            "PluginV2Layer must be V2Ext or V2IOExt or V2DynamicExt",
            "Could not create plugin",
            "Failed to create plugin",
        ),
        "A plugin of that name is there, but is of an old kind that this release does not take, or does not take the "
        "attributes of the node.",
        "Write the operator as ONNX has it, or take the version of the plugin that this release has.",
        CHECK,
    ),
    # ---- the builder -------------------------------------------------------------------------------------------------
    Cause(
        "out-of-memory",
        (
            "insuff?icient memory on requested size",
            "try increasing the workspace size",
            "OutOfMemory Error",
            "GPU memory allocation error",
            r"CUDA error(?: code)? *[:=]? *2\b|cudaErrorMemoryAllocation|CUDA out of memory|out of memory",
        ),
        "A kernel needs more memory than the workspace or the GPU has, so no implementation is left.",
        "Raise the workspace, free the GPU, or build for smaller shapes. Below, 8192 is MiB; up to 8.3 the option is "
        "--workspace=8192.",
        "trtexec --onnx={model} --memPoolSize=workspace:8192",
    ),
    Cause(
        "no-implementation",
        (
            r"could not find any implementation for node",
            r"has no (?:supported )?runners?\b",
            "no implementation for node",
        ),
        "The builder found no kernel for a group of layers; with ForeignNode the compiler Myelin gave up on what it "
        "had merged.",
        "Find the window that is to blame and write it otherwise, or try another release. Lower "
        "--builderOptimizationLevel or other --tacticSources choose other kernels.",
        "trtexec --onnx={model} --builderOptimizationLevel=1",
    ),
    Cause(
        "gpu-too-new",
        (r"unsupported SM", r"SM_?\d+ (?:is )?not supported", "no kernel image is available", "Target GPU SM"),
        "This TensorRT has no kernels for the GPU: the GPU is newer, or older, than the release supports.",
        "Take a release that supports the GPU's compute capability.",
    ),
    Cause(
        "dla-fallback",
        (
            "Unsupported on DLA",
            "not supported (?:for|on) DLA",
            "DLA only supports",
            "DLA cores do not",
            "DLA Layer .* does not support",
        ),
        "DLA does not have a layer, or not with these parameters, so it runs on the GPU, or the build fails where "
        "that is not allowed.",
        "Allow the GPU for the rest, or see which nodes DLA does not support and which passes fix them.",
        "surgeon check {model} --target {target}+dla",
    ),
    # ---- quantization ------------------------------------------------------------------------------------------------
    Cause(
        "asymmetric-quantization",
        ("shiftIsAllZeros", "Non-zero zero point is not supported", "only supports symmetric quantization"),
        "A QuantizeLinear or DequantizeLinear has a zero point other than 0. TensorRT supports symmetric "
        "quantization alone.",
        "Quantize again with symmetric ranges: in ONNX Runtime ActivationSymmetric and WeightSymmetric with QInt8 (not "
        "quantize_dynamic), in PyTorch a symmetric qscheme and qint8.",
    ),
    # ---- shapes ------------------------------------------------------------------------------------------------------
    Cause(
        "if-branches",
        (
            "IIfConditionalOutputLayer inputs must have the same shape",
            "dimensions not compatible for if-conditional outputs",
        ),
        "The two branches of an If give different shapes. TensorRT needs one shape for both.",
        "Mostly the condition is a question about a shape that is known (torch's squeeze(dim) does that): with static "
        "shapes it is a constant, and the If goes. Else export without the branch.",
        REWRITE,
    ),
    Cause(
        "if-condition",
        (r"cond\.is_weights\(\)", "If condition must be a initializer"),
        "Up to TensorRT 7.2 the condition of an If must be a constant.",
        "With static shapes it mostly is: fold it. Else use TensorRT 8.2 or later.",
        REWRITE,
    ),
    Cause(
        "loop-shapes",
        ("inputs to IRecurrenceLayer have different dimensions", "IRecurrenceLayer .*same (?:dimensions|shape)"),
        "A loop-carried tensor changes its shape from one iteration to the next.",
        "Carry a tensor of the largest size and the number of its valid rows, or run the loop outside the engine.",
    ),
    Cause(
        "reshape-volume",
        (
            "reshape (?:would change|changes) volume",
            r"get_shape_size\(new_shape\) == get_shape_size",
            r"have volume \d+ and output dimensions",
        ),
        "A Reshape is asked for a shape with another number of elements than its input has. Its target shape was "
        "computed for other sizes than the ones at hand, mostly a batch or a length that the export made a constant.",
        "Export with dynamic axes for what varies, or build and run with the sizes of the export.",
        CHECK,
    ),
    Cause(
        "broadcast",
        (
            "broadcast dimensions must be (?:conformable|positive|non-negative)",
            "dimensions not compatible for elementwise",
            "elementwise inputs must have same dimensions",
            "broadcast (?:iwth|with) incompatible dimensions",
            "CHECK_BROADCAST",
            r"nbDims == combined->getDimensions\(\)\.nbDims",
        ),
        "Two inputs of an elementwise operation have shapes that do not broadcast. Often a plugin, or a shape "
        "computed at run time, gave a wrong size further up; sometimes ONNX Runtime refuses the model as well.",
        "See whether ONNX Runtime runs the model with these sizes. If it does, fold what is constant, so that no "
        "shape is computed at run time.",
        REWRITE,
    ),
    Cause(
        "shape-tensor",
        (
            "applied to shape tensor must have 0 or 1 reshape dimensions",
            "network input that is shape tensor must have type",
            "implementation assumes 1D size of known size",
            "output can ?not be used as shape tensor",
            "shape tensor .*must be (?:0D or 1D|build-time constant)",
        ),
        "Sizes are computed through a tensor of several dimensions or of another type than integers; TensorRT computes "
        "sizes with integers in 0 or 1 dimensions.",
        "Write the computation of the sizes with one dimension; a size that is an input is to be int32 or int64.",
        REWRITE,
    ),
    Cause(
        "no-profile",
        (
            "no optimization profile has been defined",
            "Dynamic input shapes not provided",
            "requires? (?:an )?optimization profile",
            "Optimization profile is required",
            "dynamic input is missing dimensions in profile",
        ),
        "The model has symbolic dimensions, and the builder got no sizes for them.",
        "Give the smallest, usual and largest shape of each input, or make the shapes static.",
        PROFILE,
    ),
    Cause(
        "profile-shapes",
        (
            r"violates? shape constraints",
            r"does not satisfy any optimization profiles",
            r"(?:Set|Static|Runtime) dimension.*(?:does not|not) (?:match|satisfy|in) .*(?:profile|range|network)",
            "bound dimensions? .*(?:must be|exceeds?) .*profile",
        ),
        "The sizes of an optimization profile do not go together in this model, are too large, or an input has sizes "
        "outside of them.",
        "Choose smallest, usual and largest sizes with which the model runs in ONNX Runtime.",
        PROFILE,
    ),
    Cause(
        "ort-shapes",
        ("has no shape specified. *Please run shape inference", "Please run shape inference on the onnx model first"),
        "ONNX Runtime hands parts of the model to TensorRT, and the shape of a tensor between the parts is not known.",
        "Run ONNX Runtime's symbolic shape inference, which needs no other model.",
        SHAPES,
    ),
    # ---- single operators --------------------------------------------------------------------------------------------
    Cause(
        "topk-limit",
        (r"\bK exceeds", r"TopK.*3840|3840.*TopK", r"\bK\b.*(?:maximum value allowed|not be greater than).*3840"),
        "TopK takes 3840 elements at most; argsort and sort become a TopK of the whole length.",
        "Ask for fewer elements, select in parts and once more over the results, or do it outside the engine.",
        CHECK,
    ),
    Cause(
        "resize-scales",
        (r"Resize scales must be an initializer", r"scales(?:_input)?\.is_weights\(\)", r"scales_weights\.shape"),
        "The scales of a Resize are computed at run time, and this parser supports constant scales only.",
        "With static shapes they are a constant: fold them. Or export with opset 11 or later and sizes instead "
        "of scales.",
        REWRITE,
    ),
    Cause(
        "range-float",
        ("For range operator with dynamic inputs",),
        "A Range with computed bounds is taken for int32 alone up to TensorRT 8.3.",
        "Count in int32 and cast afterwards (torch.arange without float bounds), or use TensorRT 8.4 or later.",
        REWRITE,
    ),
    Cause(
        "prelu-slope",
        ("slope tensor must be unidirectional broadcastable",),
        "The slope of a PRelu has a shape that does not broadcast to its input from the right, such as [C] for NCHW.",
        "Give it one element a channel and trailing ones, [C,1,1].",
        REWRITE,
    ),
    Cause(
        "pad",
        (
            "only supports constant 0 padding",
            r'mode == "constant" && value == 0',
            "only supports padding on the outer two dimensions",
            "only supports 2D padding",
            r"onnx_padding(?:\.size\(\)|\[0\])",
            "convertOnnxPadding",
            "Failed to convert padding",
            "Unsupported pad mode",
            "does not support dynamic axes for pad",
        ),
        "This parser does not support the mode, the value, the axes or the signs of a Pad.",
        "Write it with operators that it takes: Slice for negative pads, Gather for reflected ones, a Pad a "
        "pair of axes.",
        REWRITE,
    ),
    Cause(
        "conv-weights",
        (
            r"kernel weights has count \d+ but \d+ was expected",
            "number of kernel weights does not match tensor dimensions",
        ),
        "The weights of a convolution do not fit its channels. In a network made by hand the configuration (classes, "
        "width) is not that of the weights.",
        "Make the network with the configuration that the weights were trained with.",
    ),
    Cause(
        "conv-weights-computed",
        ("Kernel weights are not set yet", r"kernel_weights.*should not", r"weights\b.*\bmust be (?:an )?initializer"),
        "The weights of a convolution are computed; up to TensorRT 8.4 the parser supports constants only.",
        "Fold them if they depend on constants alone, or use TensorRT 8.5 or later.",
        REWRITE,
    ),
    Cause(
        "mixed-types",
        (
            r"first input has type \w+ but second input has type \w+",
            r"element type \(\w+\) differs from input",
            "elementwise inputs must have (?:the )?same type",
        ),
        "An operation has one input in half and one in single precision, which ONNX does not allow; the conversion to "
        "fp16 left a constant or a branch in fp32.",
        "Convert the fp32 model again, with both sides in one type.",
        "surgeon rewrite {model} OUT.onnx --target {target} --fp16",
    ),
    Cause(
        "unsupported-type",
        (
            r"Unsupported ONNX data type",
            r"Un(?:sup|sur)porr?ted onnx data type",
            r"unsurported onnx data type",
            "Found (?:invalid|unsupported) input type",
            "elementwise inputs must not be Int32",
            "does not support INT32 input tensor for the PRelu",
            r"Only FLOAT\w*(?:, | or )\w+ (?:or \w+ )?input is supported",
            "only supports FLOAT or INT32 inputs for Clip",
        ),
        "A tensor has a type that this release does not know, such as uint8 or double.",
        "Cast the input outside the model (an image to float32), and cast to int32 or float32 inside it.",
        CHECK,
    ),
    Cause(
        "scatter-reduction",
        ("Attribute reduction is not supported", "Scatter\\w+ with reduction is not supported"),
        "A Scatter adds or multiplies what it writes (reduction), which this parser does not do.",
        "Leave the reduction out where every position is written once, which is then the same; else use a release that "
        "takes it.",
        CHECK,
    ),
    Cause(
        "normalization-form",
        (
            "only supports InstanceNormalization on",
            "InstanceNormalization does not support dynamic inputs",
            "Input to normalization should be at least 3D",
            "Only L1 and L2 normalization are supported",
            "Only float inputs/outputs supported in LpNormalization",
            "Inputs must be either all FLOAT or all FLOAT16",
            "does not support training_mode == 1 in BatchNormalization",
        ),
        "This parser does not support a normalisation of this rank, type or form.",
        "Write it with reductions and element-wise operators, or with the dimensions that it takes.",
        REWRITE,
    ),
    Cause(
        "slice-range",
        ("slice is out of (?:input )?range", "Slice .*out of bounds"),
        "A Slice reaches beyond its input. Its bounds were computed for other sizes, or not clipped.",
        "Build with the sizes of the export, or fold what computes the bounds.",
        REWRITE,
    ),
    Cause(
        "extra-outputs",
        ("Node has more output tensors than TRT expected",),
        "A node names outputs that this parser does not make, such as the mean of LayerNormalization or the mask of "
        "Dropout.",
        "Leave the outputs out if nothing reads them.",
        REWRITE,
    ),
    Cause(
        "computed-input",
        (r"inputs\.at\(\d\)\.is_weights\(\)", "(?:required to be|must be|should be) (?:an )?initializer"),
        "An input of this operator is computed at run time, and the parser supports only a constant.",
        "With static shapes it mostly is a constant: fold it.",
        REWRITE,
        Weight.GENERAL,
    ),
    # ---- the file ----------------------------------------------------------------------------------------------------
    Cause(
        "unreadable-weights",
        (r"convert_?onnx_?weights\(",),
        "The parser cannot read an initializer: its type is unknown to this release (double, uint8), or its data lies "
        "in another file that is not beside the model.",
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
        "graph, as ONNX IR version 3 wrote them; 7.0 stumbles over inputs that are left out, such as Resize's roi.",
        "Export with keep_initializers_as_inputs=True, or use TensorRT 7.1 or later.",
    ),
    Cause(
        "constant-output",
        (r"tensors\(\)\.at\(output\.name\(\)\)\.is_tensor\(\)",),
        "An output of the model is a constant, which this parser does not support.",
        "Leave that output out: its value does not depend on the input.",
    ),
    # ---- engines and the machine -------------------------------------------------------------------------------------
    Cause(
        "engine-version",
        (
            "engine plan file is not compatible with this version of TensorRT",
            "Version tag does not match",
            r"Serialization Error in verifyHeader",
            "safeVersionRead == safeSerializationVersion",
            r"stdVersionRead == \w*serialization_?version",
        ),
        "The engine was built by another TensorRT than the one that reads it. An engine belongs to one version (and "
        "one kind of GPU).",
        "Build the engine again with the TensorRT that runs it; where they seem the same, two are installed: compare "
        "trtexec's version with tensorrt.__version__ and LD_LIBRARY_PATH.",
        "surgeon build {model} OUT.engine",
    ),
    Cause(
        "cuda-driver",
        (r"cuda initialization failure with error",),
        "CUDA does not start. Error 35 says that the driver is older than the CUDA that TensorRT was built for; 100 "
        "that there is no GPU to be seen; 2 that the GPU has no memory left.",
        "Update the driver, run the container with --gpus all, or free the GPU; nvidia-smi shows driver and memory.",
        "nvidia-smi",
    ),
    Cause(
        "missing-library",
        (
            r"lib(?:nvinfer|nvonnxparser|nvinfer_plugin|cudnn|cublas)\w*\.so(?:\.\d+)*:? cannot open shared object",
            r"Failed to load library libonnxruntime_providers_tensorrt",
            r"Could not (?:open|load|locate).*nvinfer",
        ),
        "A library of TensorRT is not found: it is not installed, is another major version, or its folder is not "
        "where the loader looks.",
        "Install the TensorRT that the program was built for, and put its lib folder into LD_LIBRARY_PATH (PATH on "
        "Windows).",
        "export LD_LIBRARY_PATH=$(python -c 'import tensorrt_libs; print(tensorrt_libs.__path__[0])'):$LD_LIBRARY_PATH",
    ),
    Cause(
        "removed-api",
        (r"tensorrt\.\w+' object has no attribute '\w+'", r"module 'tensorrt\w*' has no attribute '\w+'"),
        "The Python program was written for another TensorRT: 10 took out what 8 had deprecated, such as build_engine, "
        "max_workspace_size and bindings by number.",
        "Build with build_serialized_network and set_memory_pool_limit, run with set_tensor_address; or build without "
        "Python.",
        "trtexec --onnx={model} --saveEngine=OUT.engine",
    ),
    Cause(
        "implicit-batch",
        (r"hasImplicitBatchDimension\(\)", "only supports TensorRT INetworkDefinitions with an explicit batch"),
        "The Python or C++ program makes a network with an implicit batch, which the ONNX parser of 7.0 to 9 refuses. "
        "10 knows no other than the explicit one.",
        "Make it with 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH), or build without a program.",
        "trtexec --onnx={model} --saveEngine=OUT.engine",
    ),
    # ---- where, and not what -----------------------------------------------------------------------------------------
    Cause(
        "refused-node",
        (
            r"In function import(?!Model|Inputs?\b|FallbackPlugin)\w+:",
            r"\(import(?!Model|Inputs?\b|FallbackPlugin)\w+\): \w+: Assertion failed",
            r"UNSUPPORTED_NODE_\w+: Assertion failed",
            r"\(convert_?[aA]xis\): \w+: Assertion failed",
            r"Func of the error: *import(?!Model|Inputs?\b|FallbackPlugin)\w+",
        ),
        "The parser refuses a node: it has an importer for the operator, but not for this form of it. The condition "
        "that it prints is what it asks for.",
        "See whether surgeon knows the reason and a pass that fixes it.",
        CHECK,
        Weight.OPEN,
    ),
    # ---- warnings, and what follows from other errors ----------------------------------------------------------------
    Cause(
        "fp16-overflow",
        (
            "Running layernorm after self-attention",
            "Detected layernorm nodes in FP16",
            "weights are affected by this issue: Detected",
        ),
        "Numbers beyond fp16's range, in weights or in a normalisation's squares, make results wrong or infinite.",
        "Keep the normalisations and what overflows in fp32, or export with opset 17, where they are one node.",
        "surgeon rewrite {model} OUT.onnx --target {target} --fp16 --data INPUTS.npz",
        Weight.HINT,
    ),
    Cause(
        "int64-clamped",
        ("outside the range of INT32 was clamped", "generated with INT64 weights"),
        "Up to TensorRT 9 int64 is read as int32. That is a warning: clamped are mostly the 'to the end' of a Slice, "
        "which mean the same then.",
        "surgeon check names the nodes that compute something else, if any.",
        COMPARE,
        Weight.HINT,
    ),
)
