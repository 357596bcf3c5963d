"""What is wrong with sizes: profiles, dynamic shapes, sizes that follow from the data."""

from __future__ import annotations

from surgeon.trt.causes.cause import CHECK, PROFILE, REWRITE, SHAPES, Cause, Weight

ROWS: tuple[Cause, ...] = (
    Cause(
        "float-size-input",
        (r"[Nn]etwork input .*is (?:a )?shape tensor.* must have type",),
        "Sizes are computed from an input of floats. TensorRT reads sizes from inputs of integers alone.",
        "Change the input that the line names to integers, or freeze it: --set NAME=640,640.",
        f"{REWRITE} --input NAME=int64",
    ),
    Cause(
        "size-input-values",
        (
            r"optimization profile (?:\d+ )?is missing values for shape input",
            r"shape values .*(?:missing|not set)|missing shape values",
        ),
        "An input holds sizes, which TensorRT must know when it builds, and the profile has no values for it. Such an "
        "input needs values (the smallest, usual and largest), not a shape.",
        "Give the values of the input that the log names, or freeze it: surgeon rewrite --set NAME=640,640. In Python: "
        "profile.set_shape_input(NAME, MIN, OPT, MAX).",
        "surgeon build {model} OUT.engine --profile NAME:64x64,640x640,1024x1024",
    ),
    Cause(
        "data-dependent-shape",
        (
            r"does not support data-dependent shape",
            r"incompatible with data-dependent shapes",
            r"Called without resolved dynamic shapes",
        ),
        "A size follows from the data (NonZero, NonMaxSuppression, boolean indices), and the compiler Myelin, which "
        "merges the nodes after it, does not support such sizes.",
        "Select with Where instead of by indices: surgeon does so where rows are reduced or multiplied later. "
        "--detections N gives NonMaxSuppression N rows. Else cut the model before the node.",
        REWRITE,
    ),
    Cause(
        "ort-profiles",
        (r"Users? needs? to (?:provide|specify) all the dynamic shape inputs with associated profiles",),
        "ONNX Runtime cuts the model at the nodes that TensorRT does not support, and each part needs a profile: also "
        "for the tensors between the parts, which the message lists.",
        "Rewrite these nodes, so that nothing is cut. Else name every listed tensor in trt_profile_min_shapes, "
        "trt_profile_opt_shapes and trt_profile_max_shapes.",
        REWRITE,
    ),
    Cause(
        "input-shape",
        (r"Static dimension mismatch while setting input shape", r"engineDims\.d\[i\] == dims\.d\[i\]"),
        "The engine was built for one size of this dimension, and the program gives another, mostly a larger batch.",
        "Make the dimension dynamic and build again with a profile, or give the size that the message expects.",
        f"{REWRITE} --dynamic-batch",
    ),
    Cause(
        "input-shape-not-set",
        (r"allInput(?:Dimensions|Shapes)Specified", "Not all (?:input )?shapes are specified"),
        "The program runs an engine with dynamic sizes without saying which sizes the inputs have.",
        "Call context.set_input_shape(name, shape) for each dynamic input, before the buffers are allocated.",
        "trtexec --loadEngine=OUT.engine --shapes=x:1x3x224x224",
    ),
    Cause(
        "concat-sizes",
        (
            r"all concat input tensors must have the same",
            r"dimensions (?:must be equal|not compatible) for concatenation",
        ),
        "The inputs of a Concat have different sizes. In most cases the height or width is not a multiple of the "
        "strides of the network, or a padding was lost in the export.",
        "Use multiples of 32 (or of the network's stride) in the profile, with which the model runs in ONNX Runtime.",
        PROFILE,
    ),
    Cause(
        "shape-overridden",
        ("Dynamic dimensions required for input: .*Automatically overriding shape",),
        "trtexec got no sizes for a dynamic input and set each unknown size to 1.",
        "Give the sizes.",
        PROFILE,
        Weight.HINT,
    ),
    Cause(
        "if-branches",
        (
            "IIfConditionalOutputLayer inputs must have the same shape",
            "dimensions not compatible for if-conditional outputs",
        ),
        "The two branches of an If give different shapes. TensorRT needs one shape for both.",
        "In most cases the condition depends only on a shape (torch's squeeze(dim) does that). With static shapes it "
        "is a constant, and one branch is left. Else export without the branch.",
        REWRITE,
    ),
    Cause(
        "if-condition",
        (r"cond\.is_weights\(\)", "If condition must be a initializer"),
        "Up to TensorRT 7.2 the condition of an If must be a constant.",
        "With static shapes it is a constant in most cases: fold it. Else use TensorRT 8.2 or later.",
        REWRITE,
    ),
    Cause(
        "loop-shapes",
        ("inputs to IRecurrenceLayer have different dimensions", "IRecurrenceLayer .*same (?:dimensions|shape)"),
        "A loop-carried tensor changes its shape from one iteration to the next.",
        "Use a loop-carried tensor of the largest size and one with the number of its valid rows, or run the loop "
        "outside the engine.",
        CHECK,
    ),
    Cause(
        "reshape-volume",
        (
            "reshape (?:would change|changes) volume",
            r"get_shape_size\(new_shape\) == get_shape_size",
            r"have volume \d+ and output dimensions",
            r"reshape (?:wildcard|dimension of) -1 has",
            "uninferred dimensions are not an exact divisor",
        ),
        "A Reshape has a target shape with another number of elements than its input. The shape was computed for other "
        "sizes than those of this run, mostly a batch or a length that the export made a constant.",
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
            "implementation assumes 1D size of known size",
            "output can ?not be used as shape tensor",
            "cannot be used to compute a shape tensor",
            "shape tensor .*must be (?:0D or 1D|build-time constant)",
        ),
        "Sizes are computed by an operator that this release does not have for them (OneHot), or through a tensor of "
        "several dimensions or of another type than integers. It computes sizes with integers in 0 or 1 dimensions.",
        "Write the computation of the sizes with one dimension; a size that is an input must be int32 or int64.",
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
            r"dimensions in profile \d+ are .*but input has static dimensions",
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
        "ONNX Runtime passes parts of the model to TensorRT, and the shape of a tensor between the parts is unknown.",
        "Run ONNX Runtime's symbolic shape inference, and use the model that it writes.",
        SHAPES,
    ),
)
