"""Inputs that ONNX's shape inference wants to be scalars, where runtimes take any tensor of one element.

Such an input may be of another shape as long as inference does not see it. A rewrite that shows it would make a model
that ONNX Runtime does not load.
"""

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model

# The positions of the inputs whose shape ONNX's inference asks for: read from its sources.
SCALARS = {
    "BlackmanWindow": (0,),
    "DFT": (1,),
    "Dropout": (1, 2),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "Range": (0, 1, 2),
    "STFT": (1, 3),
}


def refused(model: Model, old: Value, new: Value) -> str:
    """Why `new` cannot be read in place of `old`; empty where it can."""
    for reader in old.users:
        taken = (given for k, given in enumerate(reader.inputs) if k in SCALARS.get(reader.key, ()))
        if any(given is old for given in taken) and _shows(model, reader, old, new):
            return f"{reader.label} takes a scalar, which '{old.name}' is not: ONNX Runtime would not load it"
    return ""


def _shows(model: Model, reader: Node, old: Value, new: Value) -> bool:
    """Whether `new` is known not to be a scalar where that of `old` is not seen. Of Range constants alone are looked
    at. ONNX Runtime makes a constant of whatever it can compute."""
    if reader.key == "Range":
        is_seen = model.is_constant(old) or not model.is_constant(new)
    else:
        is_seen = model.shape(old) is not None
    return not is_seen and bool(model.shape(new))
