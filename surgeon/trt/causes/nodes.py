"""What is wrong with a node: plugins, single operators."""

from __future__ import annotations

from surgeon.trt.causes.cause import CHECK, HALF, REWRITE, Cause, Weight

ROWS: tuple[Cause, ...] = (
    # ---- plugins and operators ---------------------------------------------------------------------------------------
    Cause(
        "plugin-library",
        (r"SymbolAddress for get(?:Plugin)?Creators could not be loaded",),
        "The library of plugins has no function getCreators (up to 9: getPluginCreators), which --dynamicPlugins and "
        "loadLibrary call. It registers its plugins by itself when it is loaded.",
        "Load it as a static plugin (dlopen, ctypes.CDLL), or add getCreators and setLoggerFinder to it.",
        "trtexec --onnx={model} --staticPlugins=LIB.so",
    ),
    Cause(
        "plugin-not-loaded",
        ("corresponding IPluginCreator not found",),
        "The engine holds a plugin, and its library is not loaded in the program that reads the engine.",
        "Load the library before deserializing: initLibNvInferPlugins for NVIDIA's, dlopen or ctypes.CDLL for yours. "
        "Its version must be that with which the engine was built.",
        "trtexec --loadEngine=OUT.engine --staticPlugins=LIB.so",
    ),
    Cause(
        "plugin-failed",
        (r"pluginV\d\w*Runner\S*::execute.*Assertion status == ",),
        "A plugin ran and returned an error: its kernel did not start, or it does not support this GPU, type or size.",
        "Write the operator without the plugin, or use a newer release: EfficientNMS_TRT is complete from 8.4 on.",
        REWRITE,
    ),
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
        "A plugin node lacks an attribute that the plugin needs as a field.",
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
            r"\w+ plugin creator version \d+ was not found in plugin registry",
        ),
        "The parser has no importer for an operator, and no plugin of that name is registered.",
        "For an operator of ONNX: write it with operators that this release has. For an operator of a library such as "
        "mmdeploy: load that library.",
        "trtexec --onnx={model} --staticPlugins=LIB.so",
    ),
    Cause(
        "missing-plugin",
        (r"No importer registered for op: \w+", r"No checker registered for op: \w+"),
        "The parser has no importer for an operator, and looks for a plugin of that name.",
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
        "There is a plugin of that name. It is of an old kind that this release does not support, or it does not "
        "accept the attributes of the node.",
        "Write the operator as ONNX has it, or use the version of the plugin that this release has.",
        CHECK,
    ),
    # ---- single operators --------------------------------------------------------------------------------------------
    Cause(
        "attention-form",
        (
            "only supports Attention nodes with one output",
            r"In function importAttention|\(importAttention\)",
            r"\baddAttention\b",
            r"\bIAttention(?:Layer)?\b",
            r"_attention\w*.*: Could not find any fused kernel",
        ),
        "TensorRT has a layer for Attention from 10.14 on. It does not support this form of it: a second output, "
        "is_causal beside a mask, a mask of two dimensions, fp32, or a node inside an If.",
        "Write the Attention as MatMul and Softmax: surgeon does so where the target does not support the form.",
        REWRITE,
    ),
    Cause(
        "no-half-conv-kernel",
        (r"No low-precision conv kernel available",),
        "TensorRT 11 runs a Conv in the types of the file, and this GPU has no fp16 kernel for this one, mostly a "
        "grouped Conv.",
        "Keep the Conv in fp32, with a Cast before and after it. surgeon does so for a Conv with groups; from the fp32 "
        "model: --fp16 --keep-fp32 NODE.",
        REWRITE,
        release="11",
    ),
    Cause(
        "bf16-conv-transpose",
        (r"Could not infer output types for operation:.*\bdeconv: .*bf16",),
        "TensorRT has no bfloat16 kernel for a ConvTranspose.",
        "Compute it in fp32: a Cast to fp32 before it, and to bfloat16 after it. surgeon writes both.",
        REWRITE,
    ),
    Cause(
        "topk-limit",
        (r"\bK exceeds", r"TopK.*3840|3840.*TopK", r"\bK\b.*(?:maximum value allowed|not be greater than).*3840"),
        "TopK returns 3840 elements at most; argsort and sort become a TopK of the whole length.",
        "Select fewer elements, or select in parts and then from the results, or do it outside the engine.",
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
        "Up to TensorRT 8.3 a Range with computed bounds is supported only in int32.",
        "Count in int32 and cast afterwards (torch.arange without float bounds), or use TensorRT 8.4 or later.",
        REWRITE,
    ),
    Cause(
        "prelu-slope",
        ("slope tensor must be unidirectional broadcastable",),
        "The slope of a PRelu has a shape that does not broadcast to its input from the right, such as [C] for NCHW.",
        "Give it one element for each channel and trailing ones, [C,1,1].",
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
        "Write it with supported operators: Slice for negative pads, Gather for reflected ones, one Pad for each pair "
        "of axes.",
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
        CHECK,
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
        HALF,
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
        "supports it.",
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
        "Write it with reductions and element-wise operators, or with dimensions that it supports.",
        REWRITE,
    ),
    Cause(
        "slice-range",
        (
            "slice is out of (?:input )?range",
            "Slice(?:Layer)? .*out of bounds",
            "out of bounds slice",
            "ISliceLayer size elements must be non-negative",
        ),
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
        "With static shapes it is a constant in most cases: fold it.",
        REWRITE,
        Weight.GENERAL,
    ),
)
