"""What an engine of TensorRT-RTX runs, read from the engine itself: its kernels, and what each reads and writes.

An engine holds one program for each optimization profile and GPU, as text, whatever the verbosity it was built with.
The text is not documented. What is read here was found in engines of TensorRT-RTX 1.7.1, whose programs say version 5.
Whatever else is found is an EngineError. The program of a fused kernel, version 4, is a part of that kernel.

    header { version = 5  region = {...}  inputs={ "x.1" }  outputs={ "y.1" } ... }
    descriptors { tensor={ name="x.1" dims={ 1 4 } type=float region=... }  sub_tensor={ base="x.1" ... } ... }
    main { label bb1:  function={ name=__myl_MulAdd input_args={...} output_args={...} layers="[ONNX Layer: a]" } ... }
    shape_main { arithmetic on sizes, on the CPU }
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from surgeon.errors import EngineError
from surgeon.report import counted

MAGIC = b"vtrt"  # how an engine of TensorRT-RTX begins
SIZE_AT, VERSION_AT = slice(16, 24), slice(24, 28)  # where its size is, and the four numbers of its version
OTHER_ENGINES = (b"ptrt", b"ftrt")  # those of TensorRT
PROGRAM = re.compile(rb"NLYM.{4}(.{8})(?=header \{)", re.DOTALL)  # the group: the length of the text
READ, NESTED = "5", "4"  # versions of programs
TOKEN = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|[{}=]|[^\s{}="]+', re.DOTALL)
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
SECTIONS = ("header", "descriptors", "main", "shape_main")
BITS = {
    "bool": 8, "int4": 4, "fp4": 4, "fp4_e2m1": 4, "int8": 8, "uint8": 8, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8,
    "fp8_ue8m0": 8, "half": 16, "bf16": 16, "bfloat16": 16, "float": 32, "int32": 32, "int64": 64, "double": 64,
}  # fmt: skip
DTYPES = {"half": "fp16", "bfloat16": "bf16", "float": "fp32", "double": "fp64"}  # as surgeon calls them
CONTROL = {"assert", "cjmp", "fork", "jmp", "join", "shape_call", "signal", "wait"}  # instructions that move nothing
# The words in the names of kernels, and instructions -> operators of ONNX: names of another library for the same. Other
# words are shown as they are.
OPERATORS = {
    "Abs": "Abs", "Add": "Add", "Cast": "Cast", "Conc": "Concat", "Corr": "Conv", "Cums": "CumSum", "Div": "Div",
    "Eql": "Equal", "Erf": "Erf", "Exp": "Exp", "Fc": "MatMul", "Gath": "Gather", "Grid": "GridSample",
    "Gtr": "Greater", "Inor": "InstanceNormalization", "Iota": "Range", "Log": "Log", "Lt": "Less", "Max": "Max",
    "Maxr": "ReduceMax", "Mean": "ReduceMean", "Min": "Min", "Mul": "Mul", "Neg": "Neg", "Pow": "Pow", "Relu": "Relu",
    "Repl": "Expand", "Resh": "Reshape", "Resi": "Resize", "Roun": "Round", "Sele": "Where", "Sigm": "Sigmoid",
    "Slic": "Slice", "Sqrt": "Sqrt", "Sub": "Sub", "Sum": "ReduceSum", "Tanh": "Tanh", "Topk": "TopK",
    "Tran": "Transpose", "DivErfAddMulMul": "Gelu", "MaxrSubExpSumDiv": "Softmax", "MaxrSubExpSumDivMul": "Softmax",
    "MeanSubMulMeanAddSqrtDivMul": "Normalization", "MulMeanAddSqrtDivMul": "RMSNormalization",
    "concat": "Concat", "copy": "Copy", "corrltn": "Conv", "fully_connected": "MatMul",
    "inorm": "InstanceNormalization", "maxpool": "MaxPool",
}  # fmt: skip
READS, WRITES = ("input_args", "input"), ("output_args", "output")  # the keys of an instruction's tensors
GENERATED = {"function", "runtime_function", "runtime_fusion"}  # instructions whose names have what they compute
WORD = re.compile(
    "|".join(sorted((w for w in OPERATORS if re.match("[A-Z].*[A-Z]", w)), key=len, reverse=True)) + "|[A-Z][a-z0-9]*"
)
COPY = re.compile(r"(__myl_)?(Cast|Conc|Copy|Move|Repl|Resh|Slic|Tran|copy|memset)+")  # names of kernels that only move
FUSED_ATTENTION = "Attention"
LEAST = 1_000_000  # bytes: less is given in kB
PROFILE = re.compile(r" \[profile (\d+)\]")
LAYER = re.compile(r"\]\x1f?\[ONNX Layer: ")  # between the names of two nodes


class Tensor(NamedTuple):
    """A tensor of a program.

    dtype     as surgeon calls types, such as "fp16"
    size      in bytes; None where a dimension is symbolic
    base      the tensor whose memory it is: its own name, or that of the one that it is a view of
    on_gpu    whether it is in the memory of the GPU
    constant  whether it is a weight
    """

    name: str
    dtype: str
    size: int | None
    base: str
    on_gpu: bool
    constant: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel.

    name      as the engine has it
    computes  operators, in the order of the kernel's name
    is_copy   whether it only moves elements or changes their type
    nodes     the nodes of the ONNX model that it computes, or a part of which
    reads     the tensors in the memory of the GPU that it reads, and `writes` those that it writes

    milliseconds  of one run on this GPU; None where it was not measured
    """

    name: str
    computes: tuple[str, ...]
    is_copy: bool
    nodes: tuple[str, ...]
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    milliseconds: float | None = None

    @property
    def bytes_read(self) -> int:
        """The size of what it reads, each tensor as a whole."""
        return sum(t.size or 0 for t in self.reads)

    @property
    def bytes_written(self) -> int:
        """The size of what it writes."""
        return sum(t.size or 0 for t in self.writes)

    @property
    def bytes(self) -> int:
        """What it moves: what it reads and writes."""
        return self.bytes_read + self.bytes_written

    @property
    def uncounted(self) -> int:
        """How many of its tensors have a symbolic size, which counts for no bytes."""
        return sum(t.size is None for t in (*self.reads, *self.writes))

    @property
    def in_tables(self) -> int:
        """The size of what a Gather in it reads a part of: tensors larger than all that it writes."""
        if "Gather" not in self.computes:
            return 0
        return sum(t.size for t in self.reads if t.size is not None and t.size > self.bytes_written)

    @property
    def in_words(self) -> str:
        """The operators: "MatMul Add Gelu", "Slice x3 Concat"."""
        groups = [(word, len(list(alike))) for word, alike in groupby(self.computes)]
        return " ".join(word if count == 1 else f"{word} x{count}" for word, count in groups)

    @property
    def is_attention(self) -> bool:
        """Whether it is a fused attention."""
        return FUSED_ATTENTION in self.computes

    @property
    def types(self) -> str:
        """The types that it reads and writes: "fp16", or "fp32 -> fp16" where they differ; scalars do not count."""
        read, written = (_types(tensors) for tensors in (self.reads, self.writes))
        return written if read in ("", written) else f"{read} -> {written}" if written else read


@dataclass(frozen=True, slots=True)
class Program:
    """The program for one optimization profile and one kind of GPU.

    gpus         the compute capabilities, such as "sm80"
    profile      the number of the optimization profile
    kernels      in the order of the text; of a loop or an If each once
    weights      bytes of constants
    activations  bytes of GPU memory for what is not a weight, an input or an output
    branches     whether it has a loop or an If
    """

    gpus: tuple[str, ...]
    profile: int
    kernels: tuple[Kernel, ...]
    weights: int
    activations: int
    branches: bool

    @property
    def bytes(self) -> int:
        """What the kernels move."""
        return sum(k.bytes for k in self.kernels)

    @property
    def milliseconds(self) -> float | None:
        """The sum of the kernels' times; None where they were not measured."""
        times = [k.milliseconds for k in self.kernels if k.milliseconds is not None]
        return sum(times) if times else None

    @property
    def copies(self) -> int:
        """How many kernels only move elements or change their type."""
        return sum(k.is_copy for k in self.kernels)

    @property
    def uncounted(self) -> int:
        """How many tensors of the kernels have a symbolic size."""
        return len({t.name for k in self.kernels for t in (*k.reads, *k.writes) if t.size is None})

    @property
    def attention(self) -> tuple[int, int]:
        """How many attentions are one kernel, and how many there are."""
        fused = sum(k.is_attention for k in self.kernels)
        return fused, fused + sum(_is_between_products(self.kernels, k) for k in range(len(self.kernels)))


@dataclass(frozen=True, slots=True)
class Engine:
    """What is read of an engine: "TensorRT-RTX 1.7.1.116", and its programs, one of which runs at a time."""

    runtime: str
    programs: tuple[Program, ...]


def is_engine(data: bytes) -> bool:
    """Whether a file begins as an engine does: of TensorRT-RTX or of TensorRT."""
    return data.startswith((MAGIC, *OTHER_ENGINES))


def engine_of(data: bytes) -> Engine:
    """Read an engine. Raises EngineError where it is not one of TensorRT-RTX, or is not understood."""
    if data.startswith(OTHER_ENGINES):
        raise EngineError(
            "it is an engine of TensorRT, not of TensorRT-RTX: only TensorRT on the GPU tells its layers. Run this "
            "there, or trtexec --loadEngine=ENGINE --dumpLayerInfo."
        )
    if not data.startswith(MAGIC) or len(data) < VERSION_AT.stop:
        raise EngineError("it is not an engine of TensorRT-RTX.")
    if len(data) < int.from_bytes(data[SIZE_AT], "little"):
        raise EngineError("the engine was cut off while being written or copied: build it again.")
    version = ".".join(map(str, data[VERSION_AT]))
    try:
        programs = tuple(programs_of(texts_of(data)))
    except _Unread as error:
        raise EngineError(
            f"what it runs cannot be read: {error}. It was built by TensorRT-RTX {version}; surgeon reads the programs "
            f"of version {READ} that TensorRT-RTX 1.7.1 writes."
        ) from None
    return Engine(f"TensorRT-RTX {version}", programs)


def programs_of(texts: Sequence[str]) -> Iterator[Program]:
    """The programs in the texts of an engine; those of fused kernels are left out."""
    read = [_sections(text) for text in texts]
    own = [sections for sections in read if not _is_nested(sections["header"])]
    if not own:
        raise _Unread("it has no program")
    for sections in own:
        version = sections["header"].one("version")
        if version != READ:
            raise _Unread(f"a program of version {version}")
        yield _program(sections)


# ---- in words --------------------------------------------------------------------------------------------------------


def size(count: int, like: int = 0) -> str:
    """A number of bytes: "44.5 MB", or "12.3 kB" where it and `like` are small."""
    return f"{count / 1e6:.1f} MB" if max(count, like) >= LEAST else f"{count / 1e3:.1f} kB"


def summary(program: Program, before: Program | None = None) -> str:
    """A program in one line: "35 kernels (44 before), 44.5 MB moved (99.1), attention fused 3 of 3"."""
    count, moved = counted(len(program.kernels), "kernel"), size(program.bytes, before.bytes if before else 0)
    if before is not None:
        count += f" ({len(before.kernels)} before)"
        moved_before = size(before.bytes, program.bytes).split()[0]
    said = [count, f"{moved} moved" + (f" ({moved_before})" if before is not None else "")]
    if program.uncounted:
        said[-1] += f" without {counted(program.uncounted, 'tensor')} of symbolic sizes"
    if program.branches:
        said[-1] += ", each kernel of a loop or an If counted once"
    fused, attentions = program.attention
    if attentions:
        said.append(f"attention fused {fused} of {attentions}")
    if program.milliseconds is not None:
        earlier = "" if before is None or before.milliseconds is None else f" ({before.milliseconds:.3f})"
        said.append(f"{program.milliseconds:.3f} ms{earlier}")
    return ", ".join(said)


# ---- text ------------------------------------------------------------------------------------------------------------


class _Unread(Exception):
    """What is not understood, a part of a sentence."""


def texts_of(data: bytes) -> list[str]:
    """The text of each program in an engine."""
    found = []
    for match in PROGRAM.finditer(data):
        end = match.end() + int.from_bytes(match[1], "little")
        if end > len(data):
            raise _Unread("it ends in the middle of a program")
        found.append(data[match.end() : end].decode(errors="replace"))
    return found


class _Block(NamedTuple):
    """What is between two braces: `key=value` and values alone, in their order."""

    entries: list[tuple[str, str | _Block]]
    items: list[str]

    def one(self, key: str) -> str:
        """The text of a key; empty where there is none."""
        return next((value for name, value in self.entries if name == key and isinstance(value, str)), "")

    def list(self, key: str) -> list[str]:
        """The items of a key's block; none where there is none."""
        return next((value.items for name, value in self.entries if name == key and isinstance(value, _Block)), [])

    def has(self, key: str) -> bool:
        return any(name == key for name, _ in self.entries)


def _sections(text: str) -> dict[str, _Block]:
    """The sections of a program by name."""
    tokens = _tokens(text)
    found: dict[str, _Block] = {}
    for word in tokens:
        if word not in SECTIONS or next(tokens, "") != "{":
            raise _Unread(f"a section '{word[:40]}'")
        found[word] = _block(tokens)
    for name in SECTIONS[:3]:
        if name not in found:
            raise _Unread(f"a program without '{name}'")
    return found


def _tokens(text: str) -> Iterator[str]:
    """The words, quoted texts, braces and equals signs of a text."""
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise _Unread("a quotation mark that is not closed")
        at = match.end()
        if not match[0].isspace():
            yield match[0]


def _block(tokens: Iterator[str]) -> _Block:
    """The block that ends at the next closing brace of the same depth."""
    entries: list[tuple[str, str | _Block]] = []
    items: list[str] = []
    for token in tokens:
        if token == "}":
            return _Block(entries, items)
        if token == "{":
            raise _Unread("a brace without a name")
        if token != "=":
            items.append(_plain(token))
            continue
        value = next(tokens, "}")
        if value in ("}", "=") or not items:
            raise _Unread("an equals sign without a name or a value")
        entries.append((items.pop(), _block(tokens) if value == "{" else _plain(value)))
    raise _Unread("a brace that is not closed")


def _plain(token: str) -> str:
    return ESCAPED.sub(r"\1", token[1:-1]) if token.startswith('"') else token


def _is_nested(header: _Block) -> bool:
    """Whether a program is that of a fused kernel."""
    regions = (value for key, value in header.entries if key == "region" and isinstance(value, _Block))
    return header.one("version") == NESTED and any(r.one("name") == "runtime-fusion-consts" for r in regions)


# ---- programs --------------------------------------------------------------------------------------------------------


def _program(sections: dict[str, _Block]) -> Program:
    header = sections["header"]
    regions = [value for key, value in header.entries if key == "region" and isinstance(value, _Block)]
    hosts = {r.one("name") for r in regions if r.one("place") == "host"}
    tensors: dict[str, Tensor] = {}
    for key, value in sections["descriptors"].entries:
        if key not in ("tensor", "sub_tensor") or not isinstance(value, _Block):
            raise _Unread(f"a descriptor '{key}'")
        tensor = _tensor(value, tensors, hosts)
        tensors[tensor.name] = tensor
    instructions = sections["main"].entries
    kernels = [_kernel(kind, value, tensors) for kind, value in instructions]
    inputs_and_outputs = " ".join([*header.list("inputs"), *header.list("outputs")])
    profile = PROFILE.search(inputs_and_outputs)
    on_gpu = [r for r in regions if r.one("place") == "accelerator" and r.one("constant") != "true"]
    return Program(
        tuple(header.list("accelerators")),
        int(profile[1]) if profile else 0,
        tuple(k for k in kernels if k is not None),
        sum(
            _number(value.one("const_payload_size"))
            for _, value in sections["descriptors"].entries
            if isinstance(value, _Block)
        ),
        sum(_number(r.one("size")) for r in on_gpu),
        any(kind in ("cjmp", "jmp") for kind, _ in instructions),
    )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _tensor(block: _Block, known: dict[str, Tensor], hosts: set[str]) -> Tensor:
    name, dtype = block.one("name"), block.one("type")
    if not name or dtype not in BITS or not block.has("dims"):
        raise _Unread(f"the tensor '{name}' of type '{dtype}'")
    dims = block.list("dims")
    static = all(d.isdigit() for d in dims)
    size = (math.prod(map(int, dims)) * BITS[dtype] + 7) // 8 if static else None
    whole = known.get(block.one("base"))
    on_gpu = block.one("region") not in hosts if whole is None else whole.on_gpu
    base = name if whole is None else whole.base
    constant = block.has("const_payload_size") if whole is None else whole.constant
    return Tensor(name, DTYPES.get(dtype, dtype), size, base, on_gpu, constant)


def _kernel(kind: str, value: str | _Block, tensors: dict[str, Tensor]) -> Kernel | None:
    """The kernel of an instruction; None where nothing in the memory of the GPU is read or written."""
    if not isinstance(value, _Block):
        raise _Unread(f"the instruction '{kind}'")
    if kind in CONTROL:
        return None
    if not any(value.has(key) for key in WRITES) or not (kind == "memset" or any(value.has(key) for key in READS)):
        raise _Unread(f"the instruction '{kind}', of which it is not known what it reads and writes")
    reads, writes = (tuple(t for t in _operands(value, keys, tensors) if t.on_gpu) for keys in (READS, WRITES))
    if not reads and not writes:
        return None
    name = PROFILE.sub("", value.one("name"))
    is_copy = COPY.fullmatch(name if kind in GENERATED else kind) is not None
    return Kernel(name, _computes(kind, value), is_copy, _nodes(value.one("layers")), reads, writes)


def _operands(block: _Block, keys: Sequence[str], tensors: dict[str, Tensor]) -> list[Tensor]:
    """The tensors that a key names, each once."""
    names = dict.fromkeys(name for key in keys for name in block.list(key))
    for name in names:
        if name not in tensors:
            raise _Unread(f"the tensor '{name}', which is not described")
    return [tensors[name] for name in names]


def _computes(kind: str, block: _Block) -> tuple[str, ...]:
    """The operators of a kernel: its name has them, where it is not the name of a node."""
    if kind not in GENERATED:
        flags = [key.capitalize() for key in ("relu", "gelu", "swish", "sigmoid", "tanh") if block.one(key) == "true"]
        return tuple(OPERATORS.get(word, word) for word in [kind, *flags])
    name = block.one("name")
    if "mha" in name:
        return (FUSED_ATTENTION,)
    words = WORD.findall(name.removeprefix("__myl_")) if name.startswith("__myl_") else [name]
    return tuple(OPERATORS.get(word, word) for word in words)


def _nodes(layers: str) -> tuple[str, ...]:
    """The names of the nodes in `layers="[ONNX Layer: a][ONNX Layer: b | then (then_branch) | c (If)]"`: a, b."""
    names = LAYER.split(PROFILE.sub("", layers).removeprefix("[ONNX Layer: ").removesuffix("]"))
    return tuple(dict.fromkeys(name.partition(" | ")[0] for name in names if name))


# ---- questions about them --------------------------------------------------------------------------------------------


def _types(tensors: Sequence[Tensor]) -> str:
    large = [t for t in tensors if t.size is None or t.size > 8] or tensors
    return ", ".join(dict.fromkeys(t.dtype for t in large))


def _is_between_products(kernels: Sequence[Kernel], at: int) -> bool:
    """Whether a kernel is the softmax of an attention that is not fused: between two products of computed tensors.

    What is between it and the products is followed.
    """
    computed = set(kernels[at].computes)
    if "Softmax" not in computed and not {"Exp", "ReduceSum"} <= computed:
        return False
    return _reaches(kernels, at, range(at - 1, -1, -1), back=True) and _reaches(
        kernels, at, range(at + 1, len(kernels)), back=False
    )


def _reaches(kernels: Sequence[Kernel], at: int, others: Sequence[int], back: bool) -> bool:
    """Whether a product of two computed tensors is found from a kernel on, through kernels without a product."""

    def ends(kernel: Kernel, into: bool) -> set[str]:
        return {t.base for t in (kernel.reads if into == back else kernel.writes) if not t.constant}

    wanted = ends(kernels[at], True)
    for k in others:
        if not wanted & ends(kernels[k], False):
            continue
        if "MatMul" in kernels[k].computes:
            return sum(not t.constant for t in kernels[k].reads) > 1
        wanted |= ends(kernels[k], True)
    return False
