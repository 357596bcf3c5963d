"""Model files: read without the external weights, written through a temporary file, weights on disk copied along."""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, numpy_helper

from surgeon import guard
from surgeon.errors import ModelError
from surgeon.ir.call_sizes import check_calls
from surgeon.ir.interrupts import interrupted
from surgeon.ir.protos import all_graphs, copied, nodes_of, refill
from surgeon.ir.validity import check_external, check_place, data_size

LARGE = 1 << 30  # bytes: a larger model is written with its weights in a file of their own
SMALL = 1 << 20  # bytes: of a larger tensor no check needs the elements
UNWRITABLE = (ValueError, EncodeError)  # what the protobuf library says, by its version, of a message above 2 GiB
# What a file that is written along holds: bytes, or what makes them. That is called with the files of the written
# model, each with the place where it can be read right now, before anything is moved.
Content = bytes | Callable[[Mapping[Path, Path]], bytes]
# The types of attributes that hold no tensor, nor a graph with tensors.
PLAIN = frozenset(
    {AttributeProto.FLOAT, AttributeProto.FLOATS, AttributeProto.INT, AttributeProto.INTS}
    | {AttributeProto.STRING, AttributeProto.STRINGS}
)
# How files begin that people pass for a model, in small letters; what they are, and what to do.
KINDS = (
    (b"version https://git-lfs", "a pointer of git-lfs, not the model. Fetch the model with `git lfs pull`"),
    (b"<!doctype", "a web page, not a model. Download the file that the page links to"),
    (b"<html", "a web page, not a model. Download the file that the page links to"),
    (b"<?xml", "XML, not an ONNX model. Export the model with torch.onnx.export or tf2onnx"),
    (
        b"pk\x03\x04",
        "a zip archive: weights of PyTorch (.pt), or a download to unpack. Export .pt with torch.onnx.export",
    ),
    (b"\x80\x02", "a pickle: weights of PyTorch. Export the model with torch.onnx.export"),
    (b"\x89hdf", "a model of Keras (.h5). Convert it with tf2onnx"),
    (b"\x1f\x8b", "compressed with gzip. Unpack it first"),
    (b"gguf", "weights of llama.cpp (.gguf). Export the model with torch.onnx.export"),
    (b"ftrt", "an engine of TensorRT. surgeon reads the ONNX file that it was built from"),
    (b"ptrt", "an engine of TensorRT. surgeon reads the ONNX file that it was built from"),
    (b"vtrt", "an engine of TensorRT-RTX. surgeon reads the ONNX file that it was built from"),
)
LONGEST_MARK = max(len(mark) for mark, _ in KINDS)
LEAST_APART = 1024  # bytes: a smaller tensor stays in the file of the model
ALIGNED = 64  # bytes: in a file of weights each tensor begins at a multiple of them
DIGITS = 16  # of the digest in the name of a file of weights
_DATA = "weights"  # the file of weights, before it is known what it holds
_EXTERNAL = b"location"  # the key under which a tensor names its file: bytes without it hold no external tensor


def size_of(paths: Iterable[Path]) -> int:
    """The bytes of some files together."""
    return sum(path.stat().st_size for path in paths)


def read(path: Path) -> ModelProto:
    """The model without its external weights. Raises ModelError with a paragraph that says what to do."""
    return read_all(path)[0]


def read_all(path: Path) -> tuple[ModelProto, list[Path]]:
    """The model without its external weights, and the files that it is made of.

    They are its own and those of its weights. Raises ModelError.
    """
    data = content(path)
    if not data:
        raise ModelError(f"'{path}' is empty. Export the model again.")
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:
        raise ModelError(f"'{path}' is {_kind(data)}") from None
    if not model.HasField("graph"):
        raise ModelError(f"'{path}' holds no graph: it is not an ONNX model, or was cut off while being written.")
    _check_names(model, path)
    known = set(TensorProto.DataType.values())
    of_weights = {t.data_type for t in model.graph.initializer}
    types = [(t.name, t.data_type) for t in model.graph.initializer] if of_weights - known else []
    types += [(i.name, i.type.tensor_type.elem_type) for i in (*model.graph.input, *model.graph.output)]
    for name, number in types:
        if number not in known:
            raise ModelError(
                f"the tensor '{name}' of '{path}' has a type (number {number}) that the installed onnx package does "
                "not know. Upgrade onnx, or export again."
            )
    check_calls(model)
    files = [path]
    if _EXTERNAL not in data:
        return model, files
    for file in external_files(model):
        check_place(path, file)
        files.append(path.parent / file)
        guard.count(files[-1], files[-1].stat().st_size)
    for tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            check_external(tensor, path.parent)
    return model, files


def _check_names(model: ModelProto, path: Path) -> None:
    """Raise ModelError where a name is not UTF-8: protobuf gives bytes for it."""
    names = [t.name for g in all_graphs(model.graph) for t in (*g.input, *g.output, *g.initializer)]
    names += [name for f in model.functions for name in f.input]
    nodes = list(nodes_of(model))
    names += [name for n in nodes for name in (n.name, n.op_type, n.domain)]
    names += [name for n in nodes for name in n.output[:]]  # what they read is one of these
    if bytes in set(map(type, names)):
        wrong = next(name for name in names if isinstance(name, bytes))
        raise ModelError(
            f"'{path}' has a name that is not UTF-8, which ONNX requires: {wrong!r}. Export the model again."
        )


def beginning(path: Path) -> bytes:
    """The first bytes of a file, which say what it is; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_MARK)
    except OSError:
        return b""


def _kind(data: bytes) -> str:
    """What a file is whose protobuf does not parse, and what to do, as the rest of a sentence."""
    start = data.lstrip()[:LONGEST_MARK].lower()
    for mark, kind in KINDS:
        if start.startswith(mark):
            return f"{kind}."
    if data.isascii() and data[:1].isalnum():
        return "not an ONNX model: it is text. onnx.load(PATH, format='textproto') reads a model written as text."
    return (
        "not an ONNX model, or was cut off while being written: its protobuf does not parse. Export it again, or copy "
        "it again whole."
    )


def content(path: Path) -> bytes:
    """The bytes of a file. Raises ModelError."""
    if not path.exists():
        hint = " surgeon reads files, not pipes." if path.name == "-" else ""
        raise ModelError(f"there is no file '{path}'.{hint}")
    if path.is_dir():
        raise ModelError(f"'{path}' is a folder; surgeon reads an ONNX file.")
    if not path.is_file():
        raise ModelError(
            f"'{path}' is a pipe or a device, and surgeon reads a model more than once. Write it to a file first."
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {(error.strerror or str(error)).lower()}.") from None
    guard.count(path, len(data))
    return data


def as_text(path: str | os.PathLike[str]) -> str:
    """A path for a library written in C++. Raises ModelError for one that is not UTF-8, which those do not take."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelError(
            f"the name '{text}' is not UTF-8, and onnx, ONNX Runtime and TensorRT open no file by such a name. "
            "Rename what is not, or name a link to it."
        ) from None
    return text


def external_files(model: ModelProto) -> list[str]:
    """The files, relative to the model, that hold external tensors."""
    tensors = (t for t in all_tensors(model) if t.data_location == TensorProto.EXTERNAL)
    return list(dict.fromkeys(e.value for t in tensors for e in t.external_data if e.key == "location"))


def with_weights(model: ModelProto, folder: str | Path | None) -> ModelProto:
    """The model, or where it has external weights a copy that holds them, read from `folder`. Raises ModelError."""
    return _with_data_of(all_tensors, model, folder)


def with_inner_weights(model: ModelProto, folder: str | Path | None) -> ModelProto:
    """`with_weights`, but for the initializers of the graph: those are read one by one. Raises ModelError."""
    return _with_data_of(_inner_tensors, model, folder)


def _with_data_of(
    tensors: Callable[[ModelProto], Iterable[TensorProto]], model: ModelProto, folder: str | Path | None
) -> ModelProto:
    if folder is None or all(t.data_location != TensorProto.EXTERNAL for t in tensors(model)):
        return model
    copy = copied(model)
    for tensor in tensors(copy):
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
    copy, place = copied(tensor), external_place(tensor, folder)
    try:
        with place.path.open("rb") as file:
            file.seek(place.offset)
            copy.raw_data = file.read(place.length)
        copy.data_location = TensorProto.DEFAULT
        del copy.external_data[:]
        numpy_helper.to_array(copy)  # it raises where the file is too short
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"the weights of '{tensor.name}' cannot be read from '{place.path}': {error}") from None
    return copy


def is_same_tensor(a: TensorProto, b: TensorProto, folder: str | Path | None = None) -> bool:
    """Whether two tensors hold the same, to the bit; the data of external ones is read from `folder`."""
    if a == b or (a.data_type, a.dims) != (b.data_type, b.dims):
        return a == b
    one, other = (numpy_helper.to_array(with_data(tensor, folder)) for tensor in (a, b))
    return one.tobytes() == other.tobytes()


class Place(NamedTuple):
    """Where the data of an external tensor is: a file, and the bytes in it."""

    path: Path
    offset: int
    length: int


def external_place(tensor: TensorProto, folder: str | Path | None) -> Place:
    """Where the data of an external tensor is; `folder` is that of the model."""
    given = {entry.key: entry.value for entry in tensor.external_data}
    path, offset = Path(folder or ".", given["location"]).resolve(), int(given.get("offset", "0"))
    return Place(path, offset, int(given.get("length") or data_size(tensor) or 0))


def resolved_weights(model: ModelProto, folder: str | Path) -> tuple[ModelProto, Path]:
    """A copy whose external weights are named by the real files, and the folder to which those names are relative.

    A model cache holds weights as links to files elsewhere, which ONNX Runtime refuses to follow from 1.24 on.
    """
    real = {name: Path(folder, name).resolve() for name in external_files(model)}
    common = Path(os.path.commonpath([path.parent for path in real.values()]))
    copy = copied(model)
    for tensor in all_tensors(copy):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = real[entry.value].relative_to(common).as_posix()
    return copy, common


def without_data(model: ModelProto, most: int = sys.maxsize) -> ModelProto:
    """A copy whose external tensors, and those of more than `most` bytes, have no elements.

    onnx's checker may look at it wherever the weights are, and however many.
    """
    copy = copied(model)
    # a part of a sparse tensor may not lose its elements
    kept = []
    for sparse in copy.graph.sparse_initializer:
        parts = (sparse.values, sparse.indices)
        if any(part.data_location == TensorProto.EXTERNAL for part in parts):
            copy.graph.initializer.add(
                name=sparse.values.name, data_type=sparse.values.data_type, data_location=TensorProto.EXTERNAL
            )
        else:
            kept.append(sparse)
    refill(copy.graph.sparse_initializer, kept)
    for tensor in all_tensors(copy):
        if tensor.data_location == TensorProto.EXTERNAL or len(tensor.raw_data) > most:
            tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))
    return copy


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that a model holds or refers to: in its graph, its functions and its training."""
    yield from model.graph.initializer
    yield from _inner_tensors(model)


def _inner_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors that are not initializers of the model's graph: of bodies, attributes, functions and training."""
    yield from _tensors_inside(model.graph)
    for graph in (g for t in model.training_info for g in (t.initialization, t.algorithm)):
        yield from _tensors_in(graph)
    for function in model.functions:
        yield from _tensors_of(function.node)


def _tensors_in(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _tensors_inside(graph)


def _tensors_inside(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of(graph.node)


def _tensors_of(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for attribute in (a for n in nodes for a in n.attribute):
        if attribute.type in PLAIN:
            continue
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for tensor in (*sparse, *attribute.sparse_tensors):
            yield from (tensor.values, tensor.indices)
        bodies = [attribute.g] if attribute.HasField("g") else []
        for graph in (*bodies, *attribute.graphs):
            yield from _tensors_in(graph)


def is_large(model: ModelProto) -> bool:
    """Whether the weights that the model holds itself are better written to a file of their own."""
    try:
        return bool(model.ByteSize() > LARGE)
    except UNWRITABLE:
        return True


def check_writable(path: Path, *sources: Path) -> None:
    """Raise ModelError where `path` cannot become an output, as one of the `sources` that are read cannot."""
    if path.name == "-":
        raise ModelError("surgeon writes files, not pipes: name a file instead of '-'.")
    if path.is_dir():
        raise ModelError(f"'{path}' is a folder; name the file to write.")
    if (path.exists() and not path.is_file()) or _is_descriptor(path):
        raise ModelError(
            f"'{path}' is a device or a pipe. surgeon writes a file whole or not at all: name a regular file, or let "
            "--check write nothing."
        )
    for source in sources:
        if path.exists() and source.exists() and path.samefile(source):
            raise ModelError(
                f"'{path}' is the input itself, or holds its weights. surgeon never overwrites what it reads: name "
                "another file."
            )
    folder = _real(path).parent
    if not folder.is_dir():
        named = folder if path.is_symlink() else path.parent
        raise ModelError(f"there is no folder '{named}' to write '{path.name}' into.")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ModelError(f"'{path}' cannot be written: permission denied.")


def _is_descriptor(path: Path) -> bool:
    """Whether this is a name of an open file, such as /dev/stdout, which may be a log that others write to."""
    folder = os.path.realpath(path.parent)
    return folder == "/dev" or folder.startswith("/proc/")


def write(
    model: ModelProto,
    path: Path,
    base: Path | None = None,
    also: Mapping[Path, Content] | None = None,
    apart: bool = False,
) -> list[Path]:
    """Write a model, and the files in `also` with it, and return the model's own files.

    Files of external weights go along into another folder.

    `apart`: all weights go to one file beside the model, as those of a model above 2 GiB, which no file can hold, do in
    any case.
    """
    check_writable(path)
    data = b"" if apart else _serialized(model)
    folder = Path(os.path.realpath(path.parent))  # `new/..` names a folder whether or not there is one called new
    with Staged() as staged:
        files = [folder / path.name]
        if not data:
            files.append(_put_apart(model, files[0], base, staged))
        elif _EXTERNAL in data:
            for file in dict.fromkeys(map(os.path.normpath, external_files(model))):  # `w.bin` and `./w.bin` are one
                _carry((base or Path(".")) / file, folder / file, staged)
                files.append(folder / file)
        if data:
            staged.put(data, path)
        staged.drop(weights for weights in _own_weights(files[0]) if weights not in files)
        now = {file: staged.now(file) for file in files}
        for name, content in (also or {}).items():
            staged.put(content if isinstance(content, bytes) else content(now), name)
    return files


def _serialized(model: ModelProto) -> bytes:
    """The model as bytes; none for one above 2 GiB."""
    try:
        return bytes(model.SerializeToString(deterministic=True))
    except UNWRITABLE:
        return b""


def _put_apart(model: ModelProto, path: Path, base: Path | None, staged: Staged) -> Path:
    """Write the weights to a file beside the model's, one tensor after the other, and return its place. The file is
    named by what it holds, so a model is never beside the weights of another one: those are there before it is."""
    copy = copied(model)
    written, digest = staged.aside(path) / _DATA, hashlib.blake2b(digest_size=DIGITS // 2)
    moved = [t for g in all_graphs(copy.graph) for t in g.initializer if len(t.raw_data) >= LEAST_APART]
    moved += [t for t in all_tensors(copy) if t.data_location == TensorProto.EXTERNAL]
    with _told(path), written.open("wb") as file:
        for tensor in moved:
            padding = bytes(-file.tell() % ALIGNED)
            file.write(padding)
            digest.update(padding)
            offset = file.tell()
            for block in _blocks(tensor, base):
                file.write(block)
                digest.update(block)
            refer(tensor, offset, file.tell() - offset)
    weights = path.with_name(f"{path.name}.{digest.hexdigest()}.data")
    for tensor in moved:
        tensor.external_data.add(key="location", value=weights.name)
    os.replace(written, staged.place(weights))
    staged.put(copy.SerializeToString(deterministic=True), path)
    return weights


def _blocks(tensor: TensorProto, base: Path | None) -> Iterator[bytes]:
    """The data of a tensor, a part at a time."""
    if tensor.data_location != TensorProto.EXTERNAL:
        yield tensor.raw_data
        return
    place = external_place(tensor, base)
    with place.path.open("rb") as file:
        file.seek(place.offset)
        left = place.length
        while block := file.read(min(SMALL, left)):
            left -= len(block)
            yield block


def refer(tensor: TensorProto, offset: int, length: int) -> None:
    """Make a tensor an external one without its elements, whose file is not named yet."""
    for field, _ in tensor.ListFields():
        if field.name.endswith("_data"):  # of each type, and where they were so far
            tensor.ClearField(field.name)
    tensor.data_location = TensorProto.EXTERNAL
    for key, number in (("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(number))


def _own_weights(path: Path) -> list[Path]:
    """The files of weights that an earlier run has written beside the model that is at `path`."""
    named = re.escape(path.name) + rf"\.[0-9a-f]{{{DIGITS}}}\.data"
    earlier = ModelProto()
    try:
        data = path.read_bytes()
        if not re.search(os.fsencode(named), data):
            return []
        earlier.ParseFromString(data)
    except Exception:  # there is none, or it is not a model: nothing is known of its weights
        return []
    return [path.with_name(file) for file in external_files(earlier) if re.fullmatch(named, file)]


def put(contents: Mapping[Path, Content]) -> None:
    """Write files, all of them whole or none. Raises ModelError."""
    with Staged() as staged:
        for path, content in contents.items():
            staged.put(content if isinstance(content, bytes) else content({}), path)


class Staged:
    """Files that are written aside, and moved to their places when all are whole.

    Each is written in a hidden folder beside its place, and moved at the end of a `with`; else what was there stays.
    A signal that ends the process takes the folders away too. A link as the place of a file stays a link: the file that
    it names is replaced.
    """

    def __init__(self) -> None:
        self._folders: dict[Path, Path] = {}  # where a file is to be: where it is written
        self._moves: dict[Path, Path] = {}
        self._dropped: list[Path] = []
        self._caught: list[int] = []

    def place(self, path: Path) -> Path:
        """Where to write what shall become `path`."""
        real = _real(path)
        if real in self._moves.values():
            raise ModelError(f"two files cannot both be written to '{path}': name another one, or another folder.")
        written = self.aside(path) / real.name
        self._moves[written] = real
        return written

    def aside(self, path: Path) -> Path:
        """The hidden folder beside what shall become `path`."""
        folder = _real(path).parent
        if folder not in self._folders:
            with _told(path):
                self._folders[folder] = Path(tempfile.mkdtemp(dir=folder, prefix=".surgeon-"))
        return self._folders[folder]

    def drop(self, paths: Iterable[Path]) -> None:
        """Take files away once all that was written is in its place."""
        self._dropped += paths

    def now(self, path: Path) -> Path:
        """Where what shall be at `path` can be read now."""
        real = _real(path)
        return next((written for written, place in self._moves.items() if place == real), path)

    def put(self, data: bytes, path: Path) -> None:
        written = self.place(path)
        with _told(path):
            written.write_bytes(data)

    def copy(self, source: Path, path: Path) -> None:
        written = self.place(path)
        with _told(path):
            shutil.copyfile(source, written)

    def __enter__(self) -> Staged:
        if threading.current_thread() is threading.main_thread():
            self._caught = [n for n in ENDING if signal.getsignal(n) is signal.SIG_DFL]
            for number in self._caught:
                signal.signal(number, _end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None and interrupted():
                raise KeyboardInterrupt
            if error is None:
                for written, real in self._moves.items():
                    with _told(real):
                        written.chmod(real.stat().st_mode & 0o777 if real.exists() else 0o666 & ~_umask())
                        os.replace(written, real)
                for path in self._dropped:
                    path.unlink(missing_ok=True)
        finally:
            for folder in self._folders.values():
                shutil.rmtree(folder, ignore_errors=True)
            for number in self._caught:
                signal.signal(number, signal.SIG_DFL)
        if isinstance(error, _Ended):
            signal.raise_signal(error.number)


ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _Ended(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


def _end(number: int, frame: object) -> None:
    raise _Ended(number)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(f"'{path}' cannot be written: {(error.strerror or str(error)).lower()}.") from None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _carry(source: Path, into: Path, staged: Staged) -> None:
    """Copy a file of external weights, unless it is there already."""
    if into.exists():
        if into.samefile(source) or filecmp.cmp(source, into, shallow=False):
            return
        raise ModelError(
            f"'{into}' is there already and is not the model's own weights. Delete it, or write the model into "
            "another folder."
        )
    with _told(into):
        into.parent.mkdir(parents=True, exist_ok=True)
    staged.copy(source, into)
