"""Results of ONNX Runtime that are unreliable: they depend on operators whose kernels ignore some NaN."""

from pathlib import Path

import numpy as np
from onnx import ModelProto

from surgeon.errors import ModelError
from surgeon.ir.protos import nodes_of, returning
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import NOT_FINITE, Feeds

# Of these ONNX Runtime's kernels see some NaN and others not, by where they are in a vector register. What quantizes
# makes numbers of NaN: after an infinite range nothing else is left, and its zero point is a NaN that is cast.
BLIND_TO = {
    "DynamicQuantizeLinear": NOT_FINITE,
    "DynamicQuantizeMatMul": NOT_FINITE,
    "DynamicQuantizeLSTM": NOT_FINITE,
    "MaxRoiPool": NOT_FINITE,  # its kernel makes integers of rois, and takes no NaN for the largest
    "NonMaxSuppression": frozenset({"nan"}),  # its kernel sorts scores, where no NaN is above or below another
    "Unique": frozenset({"nan"}),  # its kernel keeps numbers in a tree, where a NaN equals whichever it meets first
    "RoiAlign": NOT_FINITE,  # its kernel refuses rois that are not finite; onnx's evaluator makes positions of them
}


class BlindSpots:
    """The operators of a model that do not see every NaN.

    kinds   the kinds of inputs that say nothing of the model
    reason  what to say where NaN reached such an operator on finite inputs
    """

    def __init__(self, model: ModelProto, folder: str | Path | None) -> None:
        used = [n.op_type for n in nodes_of(model) if n.op_type in BLIND_TO]
        self.kinds = frozenset[str]().union(*(BLIND_TO[op] for op in used))
        self.reason = f"NaN reaches {' and '.join(dict.fromkeys(used))}, which sees some NaN and others not"
        self._model, self._folder = model, folder
        self._runners: dict[int, Runner | None] = {}  # by output: what returns what the blind operators before it read

    def hides(self, feeds: Feeds, index: int) -> bool:
        """Whether NaN reaches such an operator, and the output is computed of what that returns."""
        if not self.kinds:
            return False
        if index not in self._runners:
            self._runners[index] = self._runner(index)
        runner = self._runners[index]
        try:
            results = [] if runner is None else runner.run(feeds)
        except Unrunnable:
            return False
        return any(is_float(x.dtype) and bool(np.isnan(x.astype(np.float32)).any()) for x in results)

    def _runner(self, index: int) -> Runner | None:
        """What runs the model and returns the inputs of the blind operators before an output."""
        graph = self._model.graph
        made, given = {o for n in graph.node for o in n.output}, {i.name for i in graph.input}
        read, needed = dict[str, None](), {graph.output[index].name}
        for node in reversed(graph.node):
            if needed & set(node.output):
                needed |= set(node.input)
                if node.op_type in BLIND_TO:
                    read.update(dict.fromkeys(i for i in node.input if i in made or i in given))
        if not read:
            return None
        try:
            return Runner(returning(self._model, read), self._folder)
        except (Unrunnable, ModelError):
            return None
