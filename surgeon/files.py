"""Model files: read without the external weights, written through a temporary file, weights on disk carried along."""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from .errors import ModelError

_EXTERNAL = b"location"  # the key under which a tensor names its file: bytes without it hold no external tensor


def read(path: Path) -> ModelProto:
    """The model without its external weights. Raises ModelError with a paragraph that says what to do."""
    if not path.exists():
        raise ModelError(f"there is no file '{path}'.")
    if path.is_dir():
        raise ModelError(f"'{path}' is a folder; surgeon reads an ONNX file.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror}.") from None
    if not data:
        raise ModelError(f"'{path}' is empty. Export the model again.")
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:
        raise ModelError(
            f"'{path}' is not an ONNX model, or was cut off while being written: its protobuf does not parse. Export "
            "it again, or copy it again whole."
        ) from None
    if not model.HasField("graph"):
        raise ModelError(f"'{path}' holds no graph: it is not an ONNX model, or was cut off while being written.")
    _check_types(model.graph, path)
    for file in external_files(model) if _EXTERNAL in data else ():
        where = path.parent / file
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise ModelError(f"'{path}' keeps weights in '{file}', outside its own folder, which ONNX forbids.")
        if not where.is_file():
            raise ModelError(
                f"'{path}' keeps weights in '{file}', which is not there. Put it beside the model, where the exporter "
                "wrote it."
            )
    return model


def _check_types(graph: onnx.GraphProto, path: Path) -> None:
    known = TensorProto.DataType.values()
    types = [(t.name, t.data_type) for t in graph.initializer]
    types += [(i.name, i.type.tensor_type.elem_type) for i in (*graph.input, *graph.output)]
    for name, number in types:
        if number not in known:
            raise ModelError(
                f"the tensor '{name}' of '{path}' has a type (number {number}) that the installed onnx package does "
                "not know. Upgrade onnx, or export again."
            )


def external_files(model: ModelProto) -> list[str]:
    """The files, relative to the model, that hold external tensors."""
    found: dict[str, None] = {}
    for tensor in _tensors(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            for entry in tensor.external_data:
                if entry.key == "location":
                    found[entry.value] = None
    return list(found)


def with_weights(model: ModelProto, folder: str | Path | None) -> ModelProto:
    """The model, or where it has external weights a copy that holds them, read from `folder`. Raises ModelError."""
    if folder is None or not external_files(model):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in _tensors(copy.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(with_data(tensor, folder))
    return copy


def with_data(tensor: TensorProto, folder: str | Path | None) -> TensorProto:
    """The tensor, or where it is external a copy that holds its data, read from `folder`. Raises ModelError.

    A model cache holds weights as links to files elsewhere, which onnx refuses to follow. A link is the user's own, and
    no part of the model.
    """
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    copy = TensorProto()
    copy.CopyFrom(tensor)
    where = Path(folder or ".")
    for entry in copy.external_data:
        if entry.key == "location":
            where = (where / entry.value).resolve()
            entry.value = where.name
    try:
        onnx.external_data_helper.load_external_data_for_tensor(copy, str(where.parent))
        copy.data_location = TensorProto.DEFAULT
        del copy.external_data[:]
        numpy_helper.to_array(copy)  # onnx reads too short a file without a word
    except Exception as error:  # OSError; onnx's checker raises a type of its own
        raise ModelError(f"the weights of '{tensor.name}' cannot be read from '{where}': {error}") from None
    return copy


def resolved_weights(model: ModelProto, folder: str | Path) -> tuple[ModelProto, Path]:
    """A copy whose external weights are named by the real files, and the folder to which those names are relative.

    A model cache holds weights as links to files elsewhere, which ONNX Runtime refuses to follow from 1.24 on.
    """
    real = {name: Path(folder, name).resolve() for name in external_files(model)}
    common = Path(os.path.commonpath([path.parent for path in real.values()]))
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in _tensors(copy.graph):
        for entry in tensor.external_data if tensor.data_location == TensorProto.EXTERNAL else ():
            if entry.key == "location":
                entry.value = real[entry.value].relative_to(common).as_posix()
    return copy, common


def without_data(model: ModelProto) -> ModelProto:
    """A copy whose external tensors have no elements: what onnx's checker may look at wherever the weights are."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in _tensors(copy.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))
    return copy


def _tensors(graph: onnx.GraphProto) -> Iterable[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(attribute.g)


def check_writable(path: Path, source: Path | None = None) -> None:
    """Raise ModelError where `path` cannot become the output."""
    if path.is_dir():
        raise ModelError(f"'{path}' is a folder; name the file to write.")
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise ModelError(
            f"'{path}' is the input itself. surgeon never overwrites a model that it reads: name another file."
        )
    folder = path.parent
    if not folder.is_dir():
        raise ModelError(f"there is no folder '{folder}' to write '{path.name}' into.")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ModelError(f"'{path}' cannot be written: permission denied.")


def write(model: ModelProto, path: Path, base: Path | None = None) -> None:
    """Write to a temporary file and move it into place; files of external weights go along into another folder."""
    check_writable(path)
    try:
        data = model.SerializeToString(deterministic=True)
    except ValueError:
        raise ModelError(
            "the model is larger than 2 GiB without external data. Export it with external data first."
        ) from None
    for file in external_files(model) if _EXTERNAL in data else ():
        _carry((base or Path(".")) / file, path.parent / file)
    put(data, path)


def put(data: bytes, path: Path) -> None:
    """Write a file whole or not at all: what stood there stays until the new one is complete. Raises ModelError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file_:
            file_.write(data)
        mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode & 0o777)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise ModelError(f"'{path}' cannot be written: {error.strerror}.") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _carry(source: Path, into: Path) -> None:
    """Copy a file of external weights, unless it is there already."""
    if into.exists():
        if into.samefile(source) or filecmp.cmp(source, into, shallow=False):
            return
        raise ModelError(
            f"'{into}' is there already and is not the model's own weights. Write the model into another folder."
        )
    into.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, into)
