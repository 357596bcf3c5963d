"""Random operators: their outputs cannot be compared unless both models use the same seeds."""

from collections import Counter

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from surgeon.ir.operators import RANDOM
from surgeon.ir.protos import all_nodes, holders

RATIO, TRAINING = 1, 2  # inputs of a Dropout
# Opsets of a Dropout: from the first one on it drops nothing, from the second one on what an input says.
INFERENCE, TRAINED = 7, 12


def why_random(before: ModelProto, after: ModelProto) -> str:
    """Why two models with random operators cannot be compared; empty if neither has one, or both draw the same numbers
    from the same seeds."""
    one, other = (_draws(model) for model in (before, after))
    if not one and not other:
        return ""
    if Counter(one) == Counter(other) and all("seed" in text for text in one):
        return ""
    names = ", ".join(dict.fromkeys(text.split(" ")[0] for text in (*one, *other)))
    return f"{names} draws random numbers"


def _draws(model: ModelProto) -> list[str]:
    """The operator and the attributes of each node that draws random numbers."""
    written = {t.name: t for t in model.graph.initializer}
    found = []
    for holder, opset in holders(model):
        for node in all_nodes(holder):
            if node.op_type == "Constant":
                written.update((node.output[0], a.t) for a in node.attribute if a.HasField("t"))
            if not node.domain and (node.op_type in RANDOM or _drops(node, opset, written)):
                attributes = sorted(a.SerializeToString(deterministic=True).hex() for a in node.attribute)
                seed = " seed" if any(a.name == "seed" for a in node.attribute) else ""
                found.append(f"{node.op_type}{seed} {attributes}")
    return found


def _drops(node: NodeProto, opset: int, written: dict[str, TensorProto]) -> bool:
    """Whether a node is a Dropout that drops something."""
    if node.op_type != "Dropout" or INFERENCE <= opset < TRAINED:
        return False
    if opset < INFERENCE:
        return not any(a.name == "is_test" and a.i for a in node.attribute)
    given = len(node.input) > TRAINING and node.input[TRAINING]
    return (bool(given) and not _is_zero(node, TRAINING, written)) and not _is_zero(node, RATIO, written)


def _is_zero(node: NodeProto, position: int, written: dict[str, TensorProto]) -> bool:
    tensor = written.get(node.input[position]) if position < len(node.input) else None
    return tensor is not None and not numpy_helper.to_array(tensor).any()
