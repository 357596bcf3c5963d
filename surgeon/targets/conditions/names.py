"""The names of a model's inputs, which a parser changes where a node hands the tensor on as its own.

A program that binds inputs by name then finds none. `__x`, of an input that is an output as well, stays: no engine has
one name twice.
"""

from surgeon.ir.graph import Node, Value
from surgeon.targets.condition import condition, rank_of
from surgeon.targets.releases import between, since


@condition("Loop", since(7, 0, rtx=True),
           source="onnx-tensorrt@84b5be1 to @96e7811: registerTensor(cond, body.input(1).name()) of a "
                  "scalar; measured with TensorRT-RTX 1.7.1")  # fmt: skip
def looped_input(node: Node) -> str | None:
    condition = node.input_at(1)
    if not _is_given(condition) or rank_of(node, 1) or not node.bodies:
        return None
    return _renamed(condition, node.bodies[0].proto.input[1].name)


@condition("Transpose", between((8, 0), (8, 4)),
           source="onnx-tensorrt@4225037 to @9f82b2b transposeTensor: isIdentityPerm returns the tensor "
                  "itself; measured with TensorRT 8.4.1.5")  # fmt: skip
def transposed_input(node: Node) -> str | None:
    return _handed_on(node) if _keeps_order(node) else None


@condition("Flatten", between((7, 0), (8, 4)),
           source="onnx-tensorrt@84b5be1 to @4f54a19: nbDims > 2, else the tensor itself; measured with "
                  "TensorRT 8.4.1.5")  # fmt: skip
def flattened_input(node: Node) -> str | None:
    return _handed_on(node) if rank_of(node) == 2 and node.attr("axis") in (1, -1) else None


@condition("Dropout", between((7, 0), (8, 4)),
           source="measured with TensorRT 8.4.1.5, with two outputs; earlier releases assumed to be the "
                  "same")  # fmt: skip
def dropped_input(node: Node) -> str | None:
    return _handed_on(node) if len(node.proto.output) > 1 else None


def keeps_name(identity: Node) -> bool:
    """Whether an Identity of an input of the model is the condition of a Loop, which would rename the input."""
    made = identity.outputs[0]
    if made is None or not _is_given(identity.input_at(0)) or rank_of(identity):
        return False
    return any(user.key == "Loop" and user.input_at(1) is made for user in made.users)


def _is_given(value: Value | None) -> bool:
    """Whether a tensor is an input of the model, not of a body."""
    return value is not None and value.is_input and value.graph is value.graph.model.graph


def _handed_on(node: Node) -> str | None:
    """The reason why a node that hands an input of the model on as its own is unsupported."""
    given, made = node.input_at(0), node.outputs[0]
    if not _is_given(given) or made is None:
        return None
    return _renamed(given, f"__{made.name}" if made.is_output else made.name)


def _keeps_order(node: Node) -> bool:
    perm, rank = node.attr("perm"), rank_of(node)
    return list(perm) == list(range(len(perm))) if perm is not None else rank in (0, 1)


def _renamed(given: Value | None, name: str) -> str | None:
    return None if given is None else f"the model's input '{given.name}' would be called '{name}' in the engine"
