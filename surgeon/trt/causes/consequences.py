"""Lines that say where and not what, warnings, and what follows from other errors."""

from __future__ import annotations

from surgeon.trt.causes.cause import BUILD, CHECK, COMPARE, HALF, Cause, Weight

ROWS: tuple[Cause, ...] = (
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
        "that it prints is the one that the node does not meet.",
        "surgeon check names the reason, if it is known, and the pass that fixes it.",
        CHECK,
        Weight.OPEN,
    ),
    Cause(
        "no-output",
        ("Network must have at least one output",),
        "The network is empty: the parser failed before, and the program did not print its errors.",
        "Print parser.get_error(i) for each error, or parse with trtexec, which prints them.",
        f"{BUILD} --verbose 2>&1 | surgeon why -",
        Weight.OPEN,
    ),
    Cause(
        "build-failed",
        (
            r"Engine could not be created from network",
            r"Failed to parse ONNX (?:model from )?file|Parsing model failed",
            r"Invalid Engine\. Please ensure",
            r"Assertion engine(?:Ptr)? != nullptr",
        ),
        "The engine was not built. The cause is in an earlier line.",
        "Give the whole log.",
        f"{BUILD} --verbose 2>&1 | surgeon why -",
        Weight.HINT,
    ),
    Cause(
        "fp16-overflow",
        (
            "Running layernorm after self-attention",
            "Detected layernorm nodes in FP16",
            "weights are affected by this issue: Detected",
        ),
        "Numbers beyond fp16's range, in weights or in a normalisation's squares, make results wrong or infinite.",
        "Keep the normalisations and what overflows in fp32, or export with opset 17, where they are one node.",
        f"{HALF} --data INPUTS.npz",
        Weight.HINT,
    ),
    Cause(
        "int64-clamped",
        ("outside the range of INT32 was clamped", "generated with INT64 weights"),
        "Up to TensorRT 9 int64 is read as int32. This is a warning. Most clamped numbers are the 'to the end' of a "
        "Slice, which still has the same meaning.",
        "surgeon check names the nodes that compute something else, if any.",
        COMPARE,
        Weight.HINT,
    ),
)
