"""Why the builder fails: memory, kernels, DLA, quantization."""

from __future__ import annotations

from surgeon.trt.causes.cause import BUILD, CHECK, DLA, QUANTIZE, REWRITE, SMALL, Cause, Weight

ROWS: tuple[Cause, ...] = (
    Cause(
        "shape-analyser",
        (r"Assertion !mValueMapUndo failed",),
        "TensorRT 10.5 to 10.7 fail while they analyse sizes of a dynamic length: a bug of these releases.",
        "Use another release, or give the length a fixed size (batch may stay dynamic).",
        "surgeon fix {model} -o OUT.onnx --shapes x:1x512",
    ),
    Cause(
        "no-formats",
        (r"no supported formats", r"candidateRequirements\.empty\(\)"),
        "TensorRT 8.5 and 8.6 find no memory format for a node, mostly an Unsqueeze or Reshape beside a dynamic size. "
        "It is a bug of these releases.",
        "TensorRT 10 builds it. Where it cannot be installed (JetPack 5): fold what is constant, and give fixed sizes.",
        'pip install "tensorrt>=10,<11"',
    ),
    Cause(
        "cublas",
        (r"CUBLAS_STATUS_(?!SUCCESS)\w+|cublasStatus == CUBLAS_STATUS_SUCCESS",),
        "A kernel of cuBLAS failed to start: the GPU has no memory left, or the cuBLAS is not the one that this "
        "TensorRT was built for.",
        "Free the GPU, or build without the kernels of cuBLAS.",
        "trtexec --onnx={model} --tacticSources=-CUBLAS,-CUBLAS_LT",
    ),
    Cause(
        "killed",
        (r"^\s*Killed\s*$", r"(?:exit(?:ed|s)?|returned|died).*\b(?:137|SIGKILL|signal 9)\b"),
        "The operating system ended the program: the memory of the machine was used up. A Jetson shares it with the "
        "GPU.",
        "Close other programs, add swap, or build with a smaller workspace, batch or optimization level.",
        SMALL,
        Weight.GENERAL,
    ),
    Cause(
        "illegal-memory-access",
        (
            r"illegal memory access was encountered",
            r"CUDA error 700|cudaErrorIllegalAddress",
            r"Platform \(Cuda\) error",
        ),
        "A kernel read or wrote outside its buffers. In your own program a buffer is smaller than the sizes that were "
        "set, or was freed. A plugin may write too far. Else it is a bug of the release.",
        "Run the engine with trtexec. If that works, check the buffers; if it fails, build without plugins or with "
        "another release.",
        "compute-sanitizer trtexec --loadEngine=OUT.engine",
        Weight.GENERAL,
    ),
    Cause(
        "timing-cache",
        ("timing cache will not be used",),
        "The timing cache was written by another TensorRT or for another GPU, or the file is not a timing cache.",
        "Delete the file and build again; keep one file for each release and GPU.",
        "trtexec --onnx={model} --timingCacheFile=NEW.cache --saveEngine=OUT.engine",
    ),
    Cause(
        "timing-cache",
        (r"invalid timing cache", r"timing cache .*(?:mismatch|different (?:device|version))"),
        "There was no timing cache, or one of another release or GPU. The build measures every kernel again.",
        "Nothing is wrong: keep one file for each release and GPU.",
        "trtexec --onnx={model} --timingCacheFile=NEW.cache --saveEngine=OUT.engine",
        Weight.HINT,
    ),
    Cause(
        "type-inference",
        (r"Could not infer output types for operation",),
        "Myelin has no kernel for an operation in these types, mostly in bfloat16.",
        "Compute the node that the message names in fp32, with a Cast before and after it.",
        REWRITE,
        Weight.GENERAL,
    ),
    Cause(
        "not-handled",
        (r"\w+ not handled: \w+", r"MyelinCheckException", r"Error Code 1: Myelin \("),
        "The compiler Myelin does not handle an operation that it had merged with others: a bug of this release.",
        "Update TensorRT or TensorRT-RTX (ONNX Runtime's provider has its own copy), or write the nodes in another "
        "way.",
        REWRITE,
        Weight.OPEN,
    ),
    Cause(
        "builder-assertion",
        (r"Internal Error \(Assertion (?!engine)",),
        "The builder met a state that it does not expect: a bug of this release, with this combination of nodes.",
        "Simplify the model and give fixed sizes; else use another release.",
        REWRITE,
        Weight.OPEN,
    ),
    Cause(
        "skipped-tactic",
        (r"Skipping tactic \S+ due to (?:exception|kernel)",),
        "One kernel failed while it was measured. The builder uses another one, if there is any.",
        "Nothing is wrong if the engine is built. If not: fewer tactics, or more memory.",
        "trtexec --onnx={model} --builderOptimizationLevel=2",
        Weight.HINT,
    ),
    Cause(
        "out-of-memory",
        (
            "insuff?icient memory on requested size",
            "try increasing the workspace size",
            "OutOfMemory Error",
            r"Error Code \d+: OutOfMemory",
            r"Requested amount of (?:GPU )?memory .*could not be allocated",
            "Device memory is insufficient to use tactic",
            r"Nv(?:Map|Rm)Mem\w*:.*error 12|User allocator error allocating",
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
        "The builder found no kernel for a group of layers; a ForeignNode is a group that the compiler Myelin merged, "
        "and that it cannot build.",
        "Find the nodes that cause it and write them in another way, or try another release. A lower "
        "--builderOptimizationLevel or other --tacticSources select other kernels.",
        "trtexec --onnx={model} --builderOptimizationLevel=1",
    ),
    Cause(
        "gpu-too-new",
        (r"unsupported SM", r"SM_?\d+ (?:is )?not supported", "no kernel image is available", "Target GPU SM"),
        "This TensorRT has no kernels for the GPU: the GPU is newer, or older, than the release supports.",
        "Use a release that supports the GPU's compute capability: 10.8 or later for Blackwell, 8.6 for Pascal.",
        "nvidia-smi --query-gpu=name,compute_cap --format=csv && pip install --upgrade tensorrt",
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
        "DLA does not support a layer with these parameters. The layer runs on the GPU; if that is not allowed, the "
        "build fails.",
        "Allow the GPU for this layer, or print which nodes DLA does not support and which passes fix them.",
        f"{CHECK}+dla",
    ),
    # ---- DLA ---------------------------------------------------------------------------------------------------------
    Cause(
        "dla-scale",
        ("cannot run in INT8 mode due to missing scale and zero point",),
        "DLA runs a node in int8 only if it knows the scale of the node's output, and this one has none: in a model "
        "with QuantizeLinear and DequantizeLinear a pair is missing after it.",
        "Quantize every output, also of Relu and Add; or use DLA in fp16. NVIDIA's qdq_translator makes a calibration "
        "cache for DLA of a quantized model.",
        DLA,
    ),
    Cause(
        "dla-compile",
        (
            r"DLA Node compilation Failed",
            r"Failed to compile.*DLA|DLA.*failed to compile",
            r"RegionType::kNVM",
            r"forceToUseNvmIO",
        ),
        "The compiler of DLA refuses a part of the model, or the part needs more memory than DLA got. DLA has room for "
        "16 parts: each node on the GPU between two others makes one more.",
        "Allow the GPU, give DLA more memory, and keep the parts few: surgeon check names the nodes that split them.",
        f"{DLA} --memPoolSize=dlaLocalDRAM:2048,dlaGlobalDRAM:1024",
    ),
    Cause(
        "dla-run",
        (r"submit program to DLA engine", r"NVMEDIA_DLA", r"DLA Error in execute"),
        "DLA did not start the program: its memory is used up, or the tensor is larger than it supports.",
        "Give DLA more memory, or build for smaller sizes.",
        f"{DLA} --memPoolSize=dlaLocalDRAM:2048,dlaGlobalDRAM:1024",
    ),
    # ---- quantization ------------------------------------------------------------------------------------------------
    Cause(
        "int8-calibration",
        ("no scaling factors detected", r"(?:calibrator|calibration) .*(?:is |was )?not (?:set|specified|provided)"),
        "The build asks for int8, and there are no scales: no calibrator, no calibration cache, and no QuantizeLinear "
        "in the model.",
        "Quantize the model first, with inputs that occur. With a calibration cache: surgeon rewrite "
        "--calibration-cache FILE. TensorRT 11 has no calibrators.",
        QUANTIZE,
    ),
    Cause(
        "int8-calibration",
        ("Calibrator is not being used", "Int8 mode specified but no calibrator"),
        "int8 is on without a calibrator: every tensor needs a scale from elsewhere.",
        "Nothing is wrong with a model that has QuantizeLinear and DequantizeLinear; else quantize it.",
        QUANTIZE,
        Weight.HINT,
    ),
    Cause(
        "int8-scale",
        ("Missing scale and zero-point for tensor",),
        "A tensor has no int8 scale, so the layers beside it do not run in int8.",
        "Nothing is wrong for tensors of sizes and masks. For a Conv: quantize its input and output.",
        QUANTIZE,
        Weight.HINT,
    ),
    Cause(
        "types-not-allowed",
        (r"precision has been set for a layer or layer output, but \w+ is not configured in the builder",),
        "The model has tensors of int8 or fp16, and the build does not allow that type. TensorRT up to 10 needs an "
        "option for it.",
        "Build a model that has QuantizeLinear with --int8, and one in fp16 with --fp16. From TensorRT 9 on "
        "--stronglyTyped allows all types of the file.",
        f"{BUILD} --int8",
    ),
    Cause(
        "asymmetric-quantization",
        ("shiftIsAllZeros", "Non-zero zero point is not supported", "only supports symmetric quantization"),
        "A QuantizeLinear or DequantizeLinear has a zero point other than 0. TensorRT supports only symmetric "
        "quantization.",
        "Quantize again with symmetric ranges: in ONNX Runtime ActivationSymmetric and WeightSymmetric with QInt8 (not "
        "quantize_dynamic), in PyTorch a symmetric qscheme and qint8.",
        f"{REWRITE} --symmetric-int8",
    ),
)
