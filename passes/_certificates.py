"""The rules that hold for all sizes: `tests/test_certificate.py` certifies each, once a rule.

`surgeon prove PASS` does the same, and says why another rule has no certificate. A rule whose certificate goes, or that
gets one, fails the test until it is written here.
"""

from __future__ import annotations

CERTIFIED: dict[str, set[str]] = {
    "activation": {"elu", "elu_cut", "sigmoid", "softsign", "thresholded_relu"},
    "celu": {"fuse", "plain"},
    "clip": {"fuse", "fuse_relu", "relu", "without_bounds"},
    "constant-if": {"constant_if"},
    "fold": {"cast_like", "cast_of_one"},
    "gelu": {"fuse", "fuse_tanh"},
    "hard-sigmoid": {"fuse", "fuse_relu6"},
    "hard-swish": {"fuse", "fuse_product"},
    "identity": {
        "activated_twice",
        "negated_twice",
        "without_sign",
        "alone",
        "cast",
        "cast_like",
        "double_cast",
        "dropout",
        "expand",
        "expand_to_itself",
        "identity",
        "pad",
        "slice_all",
        "split",
        "tile",
        "transpose",
        "unsqueeze_squeeze",
    },
    "instance-norm": {"reshaped_back_to_itself", "reshaped_to_itself", "transposed_back"},
    "l2-norm": {"fuse"},
    "layer-norm": {"behind"},
    "leaky-relu": {"fuse", "one_scale", "without_slope"},
    "mish": {"fuse", "fuse_quotient", "fuse_sigmoid"},
    "prelu": {"uniform"},
    "rms-norm": {"behind"},
    "selu": {"fuse"},
    "sequence": {"at", "element", "has_element", "length"},
    "softplus": {"fuse", "without_one"},
    "squeeze-axes": {"behind_a_reshape"},
    "swish": {"fuse", "fuse_quotient", "fuse_quotient_scaled", "without_one"},
}
