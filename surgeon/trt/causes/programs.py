"""What is wrong with a program and its machine: interfaces, engines, libraries, drivers."""

from __future__ import annotations

from surgeon.trt.causes.cause import BUILD, CHECK, GPU_PACKAGE, HALF, REWRITE, Cause, Weight

ROWS: tuple[Cause, ...] = (
    Cause(
        "removed-precision-flag",
        (
            r"BuilderFlag\w*' has no attribute 'k?(?:FP16|BF16|INT8|FP8|INT4|OBEY_PRECISION_CONSTRAINTS|"
            r"PREFER_PRECISION_CONSTRAINTS|STRICT_TYPES)'",
            r"has no attribute '(?:platform_has_fast_fp16|platform_has_fast_int8|fp16_mode|set_output_type|"
            r"compute_precision)'",
            r"Unknown option: --(?:fp16|bf16|int8|fp8|int4|best|half|precisionConstraints|layerPrecisions|"
            r"layerOutputTypes|stronglyTyped)\b",
            r"does not expose the FP16 builder flag",
        ),
        "TensorRT 11 and TensorRT-RTX have no precision flags: they compute in the types of the file.",
        "Convert the model to fp16 first, and build it without the flag.",
        HALF,
        release="11",
    ),
    Cause(
        "removed-calibrator",
        (
            r"has no attribute '(?:IInt8\w+|CalibrationAlgoType|int8_calibrator|set_dynamic_range|dynamic_range)'",
            r"Unknown option: --calib\b",
        ),
        "TensorRT 11 has no calibrators: int8 needs QuantizeLinear and DequantizeLinear in the model.",
        "Quantize the model. A calibration cache of an earlier TensorRT holds the scales: --calibration-cache.",
        f"{REWRITE} --calibration-cache CALIBRATION.cache",
        release="11",
    ),
    Cause(
        "removed-option",
        (r"Unknown option: -{1,2}\w+",),
        "trtexec no longer has this option. 10 removed --workspace, --minTiming, --explicitBatch, --maxBatch, --batch, "
        "--buildOnly, --deploy, --uff and --output; 11 removed the precision options.",
        "--workspace=N is --memPoolSize=workspace:N, --buildOnly is --skipInference, --minTiming is --avgTiming; "
        "--explicitBatch is left out.",
        f"{BUILD} --memPoolSize=workspace:4096 --skipInference",
    ),
    Cause(
        "strongly-typed-flag",
        (r"condition: !(?:config\.)?getFlag\(BuilderFlag::k\w+\)",),
        "The network is strongly typed (in TensorRT-RTX and TensorRT 11 every network is), and the program sets a "
        "precision flag, which is then an error.",
        "Leave the flag out. The types are those of the file: convert it to fp16 first.",
        HALF,
    ),
    Cause(
        "tensorrt-not-installed",
        (r"No module named '?tensorrt(?:_\w+)?'?",),
        "Python does not find TensorRT. On a Jetson it is a package of the system, which virtual environments do not "
        "see.",
        "Install it; on a Jetson: sudo apt install python3-libnvinfer, and python3 -m venv --system-site-packages.",
        "pip install tensorrt",
    ),
    Cause(
        "wrong-tensorrt-module",
        (r"module 'tensorrt' has no attribute '(?:Logger|Builder|Runtime|__version__)'",),
        "What Python imports is not NVIDIA's module: a file or folder named tensorrt comes first, or the installation "
        "is empty.",
        "Rename the file, and install again.",
        "pip install --force-reinstall tensorrt",
    ),
    Cause(
        "mixed-libraries",
        (r"undefined symbol: \w*(?:getBuilderPluginRegistry|nvinfer|PluginRegistry)\w*",),
        "The libraries of two versions of TensorRT are mixed: one in the system, one from pip, or an old folder in "
        "LD_LIBRARY_PATH.",
        "Remove the others, or put the folder of the wanted one first.",
        "unset LD_LIBRARY_PATH && pip install --force-reinstall tensorrt",
    ),
    Cause(
        "cudnn-missing",
        (
            r"libcudnn\w*\.so(?:\.\d+)*:? cannot open shared object",
            r"Could not load library libcudnn",
            r"cudnn\w*64_\d\.dll",
            r"cannot find\W*-lcudnn|找不到.*-lcudnn",
        ),
        "cuDNN is not found. TensorRT up to 8 needs it, and so do ONNX Runtime and PyTorch; TensorRT 10 does not.",
        "Install the cuDNN that the program was built for: 8 for CUDA 11 and TensorRT 8, 9 for CUDA 12 and 13.",
        "pip install nvidia-cudnn-cu12",
    ),
    Cause(
        "cudnn-version",
        (r"was linked against \S+(?: \S+)? [\d.]+ but loaded",),
        "Another cuDNN or cuBLAS was loaded than TensorRT was built with. Within one major version it does no harm.",
        "If results are wrong or kernels are missing, install the version that the message names first.",
        "pip install --upgrade nvidia-cudnn-cu12",
        Weight.HINT,
    ),
    Cause(
        "engine-device",
        ("generated on an incompatible device, expecting compute", "built for a different (?:GPU|compute capability)"),
        "The engine was built on a GPU of another compute capability. An engine belongs to one kind of GPU.",
        "Build it again on the machine that runs it; --hardwareCompatibilityLevel=ampere+ is for Ampere and later.",
        BUILD,
    ),
    Cause(
        "engine-file",
        (
            r"[Mm]agic tag does not match|magicTag\w* == ",
            r"Size specified in header does not match archive size",
            r"sizeRead == static_cast",
        ),
        "The file that is read is not an engine of TensorRT, was cut off, or is of a much older or newer TensorRT.",
        "Build it again with the TensorRT that reads it, and copy it whole (binary).",
        BUILD,
        Weight.GENERAL,
    ),
    Cause(
        "engine-none",
        (
            r"'NoneType' object has no attribute '(?:create_execution_context|serialize|num_bindings|num_io_tensors|"
            r"get_tensor_name|__enter__)'",
            r"AttributeError: __enter__",
            r"Engine deserialization failed|deserializeCudaEngine failed",
        ),
        "There is no engine: building or reading it failed before this line, and that message has the cause.",
        "Print the log of TensorRT (trt.Logger.VERBOSE), or build with trtexec, and give the whole log to surgeon why.",
        f"{BUILD} --verbose 2>&1 | surgeon why -",
        Weight.OPEN,
    ),
    Cause(
        "ort-gpu-package",
        (r"Specified provider '(?:Tensorrt|CUDA|NvTensorRTRTX)ExecutionProvider' is not in available provider names",),
        "This ONNX Runtime was built without the GPU: the package onnxruntime is installed, alone or over "
        "onnxruntime-gpu.",
        "Remove both, and install the one for the GPU.",
        GPU_PACKAGE,
    ),
    Cause(
        "ort-providers",
        ("you are required to explicitly set the providers parameter",),
        "From 1.9 on ONNX Runtime's GPU package requires a list of providers.",
        "InferenceSession(path, providers=['TensorrtExecutionProvider', 'CUDAExecutionProvider', "
        "'CPUExecutionProvider']).",
        "python -c \"import onnxruntime as r; r.InferenceSession('{model}', providers=r.get_available_providers())\"",
    ),
    Cause(
        "ort-provider",
        (
            r"TensorRT EP (?:failed to|could not) (?:create|build) (?:an )?engine",
            "TensorRT EP execution context enqueue failed",
        ),
        "TensorRT failed to build or run a part of the model inside ONNX Runtime. The cause is in TensorRT's own lines "
        "above, or not printed.",
        "See what TensorRT does not support, or build the whole model with trtexec, which prints the cause.",
        CHECK,
        Weight.OPEN,
    ),
    Cause(
        "engine-version",
        (
            "engine plan file is not compatible with this version of TensorRT",
            "Version tag does not match",
            r"Serialization Error in verifyHeader",
            "safeVersionRead == safeSerializationVersion",
            r"stdVersionRead == \w*serialization_?version",
            "TensorRT EP could not deserialize engine",
        ),
        "The engine was built by another TensorRT than the one that reads it. An engine belongs to one version (and "
        "one kind of GPU).",
        "Build the engine again with the TensorRT that runs it; where they seem the same, two are installed: compare "
        "trtexec's version with tensorrt.__version__ and LD_LIBRARY_PATH.",
        "surgeon build {model} OUT.engine",
    ),
    Cause(
        "cuda-driver",
        (
            r"cuda initialization failure with error",
            "CUDA driver version is insufficient|cudaErrorInsufficientDriver",
            r"CUDA (?:failure|error code)\W*35\b",
            "unsupported toolchain|cudaErrorUnsupportedPtxVersion",
            r"pybind11::init\(\): factory function returned nullptr",
        ),
        "CUDA does not start. Error 35 means that the driver is older than the CUDA that TensorRT was built for; 100 "
        "that no GPU is visible; 2 that the GPU has no memory left.",
        "Update the driver, run the container with --gpus all, or free the GPU; nvidia-smi shows driver and memory.",
        "nvidia-smi",
    ),
    Cause(
        "missing-library",
        (
            r"lib(?:nvinfer|nvonnxparser|nvinfer_plugin|cublas)\w*\.so(?:\.\d+)*:? cannot open shared object",
            r"Failed to load library libonnxruntime_providers_tensorrt",
            r"LoadLibrary failed with error 126.*onnxruntime_providers_tensorrt",
            "Please install TensorRT libraries as mentioned in the GPU requirements page",
            "Failed to create TensorrtExecutionProvider",
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
        (
            r"tensorrt\.\w+' (?:object )?has no attribute '\w+'",
            r"module 'tensorrt\w*' has no attribute '\w+'",
            r"'I\w+Layer' object has no attribute '\w+'",
        ),
        "The Python program was written for another TensorRT: TensorRT 10 removed what 8 had deprecated, such as "
        "build_engine, max_workspace_size and bindings by number.",
        "Build with build_serialized_network and set_memory_pool_limit, run with set_tensor_address; or build without "
        "Python.",
        BUILD,
    ),
    Cause(
        "implicit-batch",
        (r"hasImplicitBatchDimension\(\)", "only supports TensorRT INetworkDefinitions with an explicit batch"),
        "The Python or C++ program makes a network with an implicit batch, which the ONNX parser of 7.0 to 9 refuses. "
        "TensorRT 10 has only the explicit batch.",
        "Make it with 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH), or build without a program.",
        BUILD,
    ),
)
