"""How many nodes the calls of local functions stand for: whoever reads a model writes them out."""

from collections import Counter

from onnx import ModelProto

from surgeon.errors import ModelError
from surgeon.ir.functions import Name, by_name, called
from surgeon.ir.protos import all_nodes

DEEPEST = 100  # functions that call each other in a row: onnx and ONNX Runtime take no more
# The nodes that all calls may stand for, written out: so many in any case, and so many for each node of the file. A
# function that calls the one below it twice, and that one again, is 2^24 nodes within 24 functions.
MOST_IN_CALLS, MOST_FOR_EACH = 2**14, 200


def check_calls(model: ModelProto) -> None:
    """Raise ModelError where functions call themselves, or where their calls stand for too much."""
    functions = by_name(model.functions)
    if not functions:
        return
    calls = {name: Counter(map(called, all_nodes(function))) for name, function in functions.items()}
    sizes: dict[Name, int] = {}  # the nodes of each function, with those of the functions that it calls
    depths: dict[Name, int] = {}
    path: dict[Name, None] = {}  # the functions that are being counted, each of which calls the next one
    todo = list(functions)
    while todo:
        name = todo[-1]
        missing = [inner for inner in calls[name] if inner in functions and inner not in sizes]
        again = next((inner for inner in missing if inner in path or inner == name), None)
        if again is not None:
            raise ModelError(f"the function {_shown(again)} calls itself, which ONNX forbids. Export the model again.")
        if missing:
            path[name] = None
            todo += missing
            continue
        todo.pop()
        path.pop(name, None)
        sizes[name] = sum(count * sizes.get(inner, 1) for inner, count in calls[name].items()) or 1
        depths[name] = 1 + max((depths.get(inner, 0) for inner in calls[name]), default=0)
        if depths[name] > DEEPEST:
            raise ModelError(
                f"the function {_shown(name)} calls functions {depths[name]} deep, and ONNX takes {DEEPEST}. Put "
                "functions in place of their calls when you export the model."
            )
    called_for = sum(sizes.get(called(node), 0) for node in all_nodes(model.graph))
    most = max(MOST_IN_CALLS, MOST_FOR_EACH * (len(model.graph.node) + sum(len(f.node) for f in model.functions)))
    if called_for > most:
        raise ModelError(
            f"the model's calls of functions stand for {called_for} nodes, and surgeon writes out no more than {most} "
            "for a model of this size. Export it without functions."
        )


def _shown(name: Name) -> str:
    return f"'{'::'.join(part for part in name[:2] if part)}'"
