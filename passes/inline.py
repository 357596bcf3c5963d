"""Put the nodes of local functions in place of their calls.

Why       Exporters write modules as functions of the model
          (PyTorch's newer one, and ONNX's own functions of opset 18 on).
          Before TensorRT 9.0 a call is an operator without an importer. From then on the parser imports functions,
          but knows them by name alone, after ONNX's own operators, and binds what is in them by name too.
          Other numbers, silently: a function called Softmax, two overloads, an attribute that a call leaves out or
          that a body inside reads. So every call goes.
          ONNX Runtime, too, mixes up the functions of plugin nodes inside another function.
Rewrites  a call of a local function   ->   the function's nodes, calls in them included
          a model of another opset than such a function    ->   the same at the function's, where that means the same
Exact     Bit for bit. Functions of plugin nodes (domains `surgeon` and `trt.plugins`, and what has a `plugin_version`
          or a `plugin_namespace`) stay where the target supports the plugin: they only say what those compute.
Price     None: ONNX Runtime puts functions in place of their calls itself. Swish twice on [1,64,56,56] takes 0.12
          ms either way.
"""

from collections.abc import Iterable, Sequence

from onnx import FunctionProto

from surgeon import DOMAIN, Decline, Editor, Node, Stage, model_rule
from surgeon.ir.functions import ONNX, changed_of, changed_operators, common_opset, opset_of
from surgeon.ir.graph import scopes_of
from surgeon.ir.model import Model
from surgeon.ir.protos import all_nodes, functions_behind
from surgeon.ir.schemas import key_of
from surgeon.targets.plugins import STOCK_DOMAIN, names_plugin

from ._copy import copied, inlined

PLUGINS = (DOMAIN, STOCK_DOMAIN)


@model_rule(stage=Stage.CLEAN)
def inline(editor):
    if not editor.model.functions:
        return
    meanings = _meanings(editor)
    for function in editor.model.functions.values():
        function.sync()  # what other passes made of it is what is copied
    expanded = [f for f in editor.model.proto.functions if key_of(f.domain, f.name) not in meanings]
    for node in editor.nodes(editor.model.functions.__contains__):
        if node.key in meanings or node.graph.in_function or editor.excluded(node):
            continue
        functions = functions_behind([node.proto], expanded)
        opset = editor.model.opset
        why = _replaced(editor, node, functions)
        if why:
            editor.decline(node, why)
            if editor.model.opset != opset:
                editor.model.set_opset(opset)
    editor.model.drop_unused_functions()  # no pass need look at what will not be written


def _meanings(editor: Editor) -> set[str]:
    """The functions that only say what plugin nodes compute; 9.0 to 10.6 import a function before a plugin."""
    functions = editor.model.functions
    own = {key for key, function in functions.items() if function.proto.domain in PLUGINS}
    if not (editor.target.plugins and editor.target.carries_functions):
        return own
    return own | {node.key for node in editor.nodes(functions.__contains__) if names_plugin(node)}


def _replaced(editor: Editor, node: Node, functions: Sequence[FunctionProto]) -> str:
    """Put the function in place of its call; why that is not done, else empty."""
    model = editor.model
    used = {n.op for scope in scopes_of(model.graph) for n in scope.live() if n.proto.domain in ONNX}
    opset = common_opset(used, model.opset, functions)
    if opset is not None and opset != model.opset:
        model.remember_opsets()
        model.set_opset(opset)
    other = _of_another_opset(functions, model)
    if other:
        return other
    nodes = inlined(node, model, functions)
    if any(key_of(n.domain, n.op_type) == node.key for n in nodes):
        return "the function declares another opset than the model, and a node of it has no form there"
    for entry in [o for f in functions for o in f.opset_import if o.domain not in (*ONNX, *model.opsets)]:
        model.set_opset(entry.version, entry.domain)
    builder = editor.builder(node)
    tensors = {f"in{k}": v for k, v in enumerate(node.inputs) if v is not None}
    try:
        copied(builder, nodes, tensors)
    except Decline as refused:
        builder.undo()
        return str(refused)
    editor.replace(node, [None if o is None else tensors[f"out{k}"] for k, o in enumerate(node.outputs)], builder)
    return ""


def _of_another_opset(functions: Iterable[FunctionProto], model: Model) -> str:
    """Why one of the functions is not of the model's opsets; empty where all are, or mean the same there."""
    opsets = dict(model.opsets)
    for function in functions:
        called = key_of(function.domain, function.name)
        changed = changed_operators(function, model.opset)
        if changed:
            declared = opset_of(function)
            return (
                f"the function {called} declares opset {declared} of ONNX's operators, the model {model.opset}, and "
                f"{changed[0]} is another operator there: export both at opset {declared}"
            )
        for entry in [o for o in function.opset_import if o.domain not in ONNX]:
            declared = opsets.setdefault(entry.domain, entry.version)
            used = {n.op_type for n in all_nodes(function) if n.domain == entry.domain}
            changed = changed_of(used, entry.version, declared, entry.domain)
            if changed:
                return (
                    f"the function {called} declares version {entry.version} of {entry.domain}, the model {declared}, "
                    f"and {changed[0]} is another operator there"
                )
    return ""
