"""Merge two consecutive multiplications by constants: the same pass as a function over a gs.Graph.

Why       You have scripts for onnx-graphsurgeon already, and want them reported,
          proved and undone where they are wrong.
Rewrites  (x * first) * second, both scalars   ->   x * (first * second)
Exact     To rounding.
"""

import numpy as np
import onnx_graphsurgeon as gs

from surgeon import gs_pass


def scalar(node):
    """The constant factor of a Mul; None where it has none, or one that is not a scalar."""
    constants = [t for t in node.inputs if isinstance(t, gs.Constant)]
    return constants[0] if node.op == "Mul" and constants and constants[0].values.size == 1 else None


@gs_pass
def scales(graph):
    for node in graph.nodes:
        factor = scalar(node)
        before = node.i() if factor is not None and node.inputs[0].inputs else None
        earlier = scalar(before) if before is not None else None
        if earlier is None or len(before.outputs[0].outputs) > 1:
            continue
        product = np.asarray(earlier.values * factor.values)
        node.inputs = [before.inputs[0], gs.Constant(f"{factor.name}_merged", product)]
        before.outputs.clear()
    graph.cleanup()
