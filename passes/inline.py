"""Put local functions in the place of their calls.

Why       Exporters write modules as functions of the model
          (PyTorch's newer one, and ONNX's own functions of opset 18 on).
          Before TensorRT 9.0 a call is an operator without an importer. From then on the parser imports functions,
          but knows them by name alone, behind ONNX's own operators, and binds what is in them by name too.
          Other numbers, silently: a function called Softmax, two overloads, an attribute that a call leaves out or
          that a body inside reads. So every call goes.
          ONNX Runtime, too, mixes up the functions of plugin nodes inside another function.
Rewrites  a call of a local function   ->   the function's nodes, calls in them included
Exact     Bit for bit. Functions of plugin nodes (domains `surgeon` and `trt.plugins`, and what has a `plugin_version`
          or a `plugin_namespace`) stay where the target takes the plugin: they only say what those compute.
Price     None: ONNX Runtime puts functions in the place of their calls itself. Swish twice on [1,64,56,56] takes 0.12
          ms either way.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import FunctionProto

from surgeon import DOMAIN, Editor, Stage, model_rule
from surgeon.ir.functions import ONNX, changed_operators, opset_of
from surgeon.ir.model import Model
from surgeon.ir.protos import functions_behind
from surgeon.ir.schemas import key_of
from surgeon.rules.rule import Decline
from surgeon.targets.plugins import STOCK_DOMAIN, names_plugin

from ._copy import copied, inlined

PLUGINS = (DOMAIN, STOCK_DOMAIN)


@model_rule(stage=Stage.CLEAN)
def inline(editor):
    if not editor.model.functions:
        return False
    changed = False
    meanings = _meanings(editor)
    for function in editor.model.functions.values():
        function.sync()  # what other passes made of it is what is copied
    expanded = [f for f in editor.model.proto.functions if key_of(f.domain, f.name) not in meanings]
    for node in editor.nodes(editor.model.functions.__contains__):
        if node.key in meanings or node.graph.in_function or editor.excluded(node):
            continue
        functions = functions_behind([node.proto], expanded)
        other = _of_another_opset(functions, editor.model)
        if other:
            editor.decline(node, other)
            continue
        nodes = inlined(node, editor.model, functions)
        if any(key_of(n.domain, n.op_type) == node.key for n in nodes):
            editor.decline(
                node, "the function declares another opset than the model, and a node of it has no form there"
            )
            continue
        for entry in [o for f in functions for o in f.opset_import if o.domain not in (*ONNX, *editor.model.opsets)]:
            editor.model.set_opset(entry.version, entry.domain)
        builder = editor.builder(node)
        tensors = {f"in{k}": v for k, v in enumerate(node.inputs) if v is not None}
        try:
            copied(builder, nodes, tensors)
        except Decline as refused:
            builder.undo()
            editor.decline(node, str(refused))
            continue
        editor.replace(node, [None if o is None else tensors[f"out{k}"] for k, o in enumerate(node.outputs)], builder)
        changed = True
    editor.model.drop_unused_functions()  # no pass need look at what will not be written
    return changed


def _meanings(editor: Editor) -> set[str]:
    """The functions that only say what plugin nodes compute; 9.0 to 10.6 import a function before a plugin."""
    functions = editor.model.functions
    own = {key for key, function in functions.items() if function.proto.domain in PLUGINS}
    if not (editor.target.plugins and editor.target.carries_functions):
        return own
    return own | {node.key for node in editor.nodes(functions.__contains__) if names_plugin(node)}


def _of_another_opset(functions: Iterable[FunctionProto], model: Model) -> str:
    """Why one of the functions is not of the model's opset; empty where all are, or mean the same there."""
    for function in functions:
        changed = changed_operators(function, model.opset)
        if changed:
            declared = opset_of(function)
            return (
                f"the function {key_of(function.domain, function.name)} declares opset {declared} of ONNX's operators, "
                f"the model {model.opset}, and {changed[0]} is another operator there: export both at opset {declared}"
            )
    return ""
