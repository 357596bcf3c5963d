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
"""

from onnx import FunctionProto, ModelProto, helper, inliner

from surgeon import DOMAIN, Stage, rewrite_model
from surgeon.graph import all_nodes, functions_behind, key_of, schema
from surgeon.targets import STOCK_DOMAIN, names_plugin

from ._copy import copied

ONNX = ("", "ai.onnx")

PLUGINS = (DOMAIN, STOCK_DOMAIN)


@rewrite_model(stage=Stage.CLEAN)
def inline(editor):
    if not editor.model.functions:
        return False
    changed = False
    meanings = _meanings(editor)
    expanded = [f for f in editor.model.proto.functions if key_of(f.domain, f.name) not in meanings]
    for node in editor.nodes(editor.model.functions.__contains__):
        if node.key in meanings or node.graph.in_function or editor.excluded(node):
            continue
        functions = functions_behind([node.proto], expanded)
        other = _of_another_opset(functions, editor.model)
        if other:
            editor.decline(node, other)
            continue
        nodes = _inlined(node, editor.model, functions)
        if any(key_of(n.domain, n.op_type) == node.key for n in nodes):
            editor.decline(
                node, "the function declares another opset than the model, and a node of it has no form there"
            )
            continue
        for entry in [o for f in functions for o in f.opset_import if o.domain not in (*ONNX, *editor.model.opsets)]:
            editor.model.set_opset(entry.version, entry.domain)
        builder = editor.builder(node)
        known = {f"in{k}": v for k, v in enumerate(node.inputs) if v is not None}
        copied(builder, nodes, known)
        editor.replace(node, [None if o is None else known[f"out{k}"] for k, o in enumerate(node.outputs)], builder)
        changed = True
    editor.model.drop_unused_functions()  # no pass need look at what will not be written
    return changed


def _meanings(editor):
    """The functions that only say what plugin nodes compute; 9.0 to 10.6 import a function before a plugin."""
    functions = editor.model.functions
    own = {key for key, function in functions.items() if function.proto.domain in PLUGINS}
    if not (editor.target.plugins and editor.target.carries_functions):
        return own
    return own | {node.key for node in editor.nodes(functions.__contains__) if names_plugin(node)}


def _of_another_opset(functions, model):
    """Why one of the functions is not of the model's opset; empty where all are, or mean the same there."""
    for function in functions:
        changed = _changed(function, model.opset)
        if changed:
            declared = _opset(function)
            return (
                f"the function {key_of(function.domain, function.name)} declares opset {declared} of ONNX's operators, "
                f"the model {model.opset}, and {changed[0]} is another operator there: export both at opset {declared}"
            )
    return ""


def _opset(function):
    return next((o.version for o in function.opset_import if o.domain in ONNX), 1)


def _changed(function, opset):
    """The operators of a function with other inputs, outputs, attributes or defaults at `opset` than at its own."""
    own, used = _opset(function), {n.op_type for n in all_nodes(function) if n.domain in ONNX}
    return sorted(op for op in used if _signature(op, own) != _signature(op, opset))


def _signature(op, opset):
    """Without the types, of which newer opsets take more."""
    spec = schema(op, "", opset)
    if spec is None:
        return None
    attrs = {name: (a.type, a.required, a.default_value.SerializeToString()) for name, a in spec.attributes.items()}
    return attrs, [(f.name, f.option) for f in spec.inputs], [(f.name, f.option) for f in spec.outputs]


def _as_inliner_reads(function, opset, functions, call):
    """A copy of which onnx's inliner (1.23) makes what it means: of the model's opset, where that means the same, with
    a node for every output and with the defaults of what it calls."""
    copy = FunctionProto()
    copy.CopyFrom(function)
    if _is_of(function, call):
        _drop_left_out(all_nodes(copy), {a.name for a in call.attribute})
    if not _changed(function, opset):
        for entry in copy.opset_import:
            if entry.domain in ONNX:
                entry.version = opset
    _say_defaults(all_nodes(copy), functions)
    for position, name in enumerate(copy.output):
        if name in copy.input:
            copy.output[position] = f"{name}~{position}"
            copy.node.add(op_type="Identity", input=[name], output=[copy.output[position]])
    return copy


def _is_of(function, call):
    return (function.domain, function.name, function.overload) == (call.domain, call.op_type, call.overload)


def _drop_left_out(nodes, given):
    """Take away the attributes that would be a call's, where it does not give them: then the operator's default counts,
    or that of the function that is called."""
    for node in nodes:
        kept = [a for a in node.attribute if not a.ref_attr_name or a.ref_attr_name in given]
        if len(kept) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(kept)


def _say_defaults(calls, functions):
    """Write to each call of a function the attributes that it leaves out and the function has defaults for."""
    for call in calls:
        for function in functions:
            if _is_of(function, call):
                given = {a.name for a in call.attribute}
                call.attribute.extend(a for a in function.attribute_proto if a.name not in given)


def _inlined(node, model, functions):
    """The nodes that onnx's inliner writes for a call of one of the functions, between `in0`... and `out0`..."""
    call = type(node.proto)()
    call.CopyFrom(node.proto)
    call.input[:] = [f"in{k}" if v is not None else "" for k, v in enumerate(node.inputs)]
    call.output[:] = [f"out{k}" if o is not None else "" for k, o in enumerate(node.outputs)]
    infos = [
        helper.make_tensor_value_info(n, model.dtype(v), None)
        for n, v in zip(call.input, node.inputs, strict=True)
        if v is not None
    ]
    outputs = [helper.make_tensor_value_info(n, 1, None) for n in call.output if n]
    _say_defaults([call], functions)
    graph = helper.make_graph([call], "call", infos, outputs)
    alone = ModelProto(
        ir_version=model.proto.ir_version,
        graph=graph,
        opset_import=model.proto.opset_import,
        functions=[_as_inliner_reads(f, model.opset, functions, call) for f in functions],
    )
    return list(inliner.inline_local_functions(alone).graph.node)
