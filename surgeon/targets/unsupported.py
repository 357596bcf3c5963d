"""Why a target does not support a node: the answer to `Target.why_unsupported`."""

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What it lies in that a node is not supported.

    OPERATOR  the parser has no importer for the operator, nor a plugin
    NODE      the parser refuses the node, or reads it with another meaning: a condition of the table
    ROUNDED   the parser rounds a number of the node
    TYPE      the parser does not know a type that the node reads or makes, or cuts its numbers
    OPSET     the node uses what came with a later opset than the parser reads
    """

    OPERATOR = "operator"
    NODE = "node"
    ROUNDED = "rounded"
    TYPE = "type"
    OPSET = "opset"


class Unsupported(NamedTuple):
    """Why a node is not supported: the kind, and the reason, a part of a sentence without a full stop.

    known  False if the node may be supported all the same: TensorRT-RTX alone was measured, or the sources differ
    """

    kind: Kind
    reason: str
    known: bool = True

    def __str__(self) -> str:
        return self.reason
