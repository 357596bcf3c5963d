"""Copy a model with some element types replaced: wider ones for an exact evaluation, narrower ones for a target."""

from collections.abc import Mapping

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.protos import copied, holders

NAMING = ("to", "dtype")  # the attributes that name the type of what a node returns


def retyped(model: ModelProto, kinds: Mapping[int, int]) -> ModelProto:
    """The model with tensors, constants, casts, inputs and outputs of other types: `kinds` has the new one of each.

    A finite number beyond a narrower type becomes its largest one.
    """
    made = copied(model)
    for holder, _ in holders(made):
        _retype(holder, kinds)
    return made


def _retype(holder: GraphProto | FunctionProto, kinds: Mapping[int, int]) -> None:
    del holder.value_info[:]  # the file's types; ONNX Runtime infers the new ones
    if isinstance(holder, GraphProto):
        for info in (*holder.input, *holder.output):
            elem = info.type.tensor_type.elem_type
            if elem in kinds:
                info.type.tensor_type.elem_type = kinds[elem]
        for tensor in (*holder.initializer, *(sparse.values for sparse in holder.sparse_initializer)):
            _retype_tensor(tensor, kinds)
    for node in holder.node:
        if TensorProto.FLOAT in kinds:
            _say_type(node)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _retype_tensor(attribute.t, kinds)
            elif attribute.type == AttributeProto.GRAPH:
                _retype(attribute.g, kinds)
            elif attribute.name in NAMING and attribute.type == AttributeProto.INT and not node.domain:
                attribute.i = kinds.get(attribute.i, attribute.i)


def _say_type(node: NodeProto) -> None:
    """Have a node that makes floats of nothing say so in a tensor, which gets another type."""
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1, np.float32))))
    if node.op_type != "Constant":
        return
    for attribute in node.attribute:
        if attribute.name in ("value_float", "value_floats"):
            number = np.asarray(helper.get_attribute_value(attribute), np.float32)
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(number)))


def _retype_tensor(tensor: TensorProto, kinds: Mapping[int, int]) -> None:
    if tensor.data_type in kinds and tensor.data_location != TensorProto.EXTERNAL:
        array = narrowed(numpy_helper.to_array(tensor), kinds[tensor.data_type])
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def narrowed(array: np.ndarray, to: int) -> np.ndarray:
    """The numbers in another type; a finite one beyond it is its largest one."""
    dtype = helper.tensor_dtype_to_np_dtype(to)
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    beyond = np.isfinite(array) & ~np.isfinite(made) if array.dtype.kind == "f" == dtype.kind else np.zeros(1, bool)
    if beyond.any():
        made[beyond] = np.copysign(np.finfo(dtype).max, array[beyond]).astype(dtype)
    return made
