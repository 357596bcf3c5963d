"""Which of ONNX's operator cases TensorRT-RTX refuses after surgeon, and why: docs/refused-cases.md.

    python benchmarks/refused_cases.py            prints the table
    python benchmarks/refused_cases.py --write    writes it to docs/refused-cases.md; ten minutes

As in an exported model, small integers, truths and numbers after a case's first input are constants. Each case is
rewritten, and built where surgeon finds nothing that the target does not support. Needs tensorrt_rtx, and no GPU.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import corpus_rtx
import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

import surgeon
from surgeon.errors import SurgeonError
from surgeon.pipeline.advice import NONE, advice_for
from surgeon.pipeline.options import CheckOptions, Options
from surgeon.pipeline.source import Source

PAGE = Path(__file__).parents[1] / "docs/refused-cases.md"
MOST_ELEMENTS = 16  # of an input that an exported model has as a constant
HEAD = """# Operator tests that are still unsupported

After `surgeon rewrite`, TensorRT-RTX 1.7.1 builds {built:,} of ONNX's {total:,} operator tests,
and reads them with ONNX's meaning. This table has the other {left}.
`python benchmarks/refused_cases.py --write` made it, with onnx {onnx}.

| operator | tests | why | advice |
|---|---|---|---|
"""


class Refused(NamedTuple):
    """Why a case is refused: the operator, the reason, and what a person can do."""

    operator: str
    why: str
    cure: str


def cases() -> Iterator[tuple[str, ModelProto]]:
    """(name, model) of each operator case, with its small inputs as constants."""
    from onnx.backend.test.case import node  # a minute: every case draws its numbers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = node.collect_testcases(None)
    for case in found:
        if case.model is None:
            continue
        model = ModelProto.FromString(case.model.SerializeToString())
        given = case.data_sets[0][0] if case.data_sets else []
        yield case.name, with_constants(model, given)


def with_constants(model: ModelProto, given: list[object]) -> ModelProto:
    """The model whose small inputs after the first are initializers."""
    infos = list(model.graph.input)
    if len(infos) != len(given):
        return model
    held = [k for k, value in enumerate(given) if k and _is_small(value)]
    if not held or len(held) == len(infos):
        return model
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(given[k]), infos[k].name) for k in held)
    del model.graph.input[:]
    model.graph.input.extend(info for k, info in enumerate(infos) if k not in held)
    return model


def _is_small(value: object) -> bool:
    if not isinstance(value, np.ndarray | np.generic):
        return False
    array = np.asarray(value)
    is_number = array.dtype in (np.int64, np.int32, np.bool_)
    return array.ndim == 0 or (is_number and array.ndim == 1 and array.size <= MOST_ELEMENTS)


def refusal(model: ModelProto) -> Refused | None:
    """Why a case is refused; None where it is built."""
    try:
        result = surgeon.rewrite(model, target="rtx", cache=True)
    except SurgeonError as error:
        return Refused(first_operator(model), str(error).rstrip("."), NONE)
    if result.report.untaken:
        first, options = result.report.untaken[0], Options.checked(CheckOptions(target="rtx"))
        return Refused(first_operator(model), first.why.rstrip("."), advice_for(result, Source(model), options)[0])
    found, why = corpus_rtx.build(result.model.SerializeToString())
    said = " ".join(why.split())[:150].rstrip(" .:")
    return None if found == "built" else Refused(first_operator(model), f"TensorRT-RTX reports: {said}", NONE)


def first_operator(model: ModelProto) -> str:
    """The operator of a case's first node that is not a constant: what the case is about."""
    return next((n.op_type for n in model.graph.node if n.op_type != "Constant"), "no node")


def table() -> str:
    """The page."""
    found = []
    for name, model in cases():
        found.append((name, refusal(model)))
        print(len(found), name, found[-1][1] or "built", file=sys.stderr, flush=True)
    return page(found)


def page(found: Sequence[tuple[str, Refused | None]]) -> str:
    """The page of what became of each case."""
    rows: dict[Refused, list[str]] = defaultdict(list)
    for name, why in found:
        if why is not None:
            rows[why].append(name)
    left = sum(map(len, rows.values()))
    head = HEAD.format(built=len(found) - left, total=len(found), left=left, onnx=onnx.__version__)
    return head + "".join(f"{line(why, names)}\n" for why, names in sorted(rows.items()))


def line(why: Refused, names: list[str]) -> str:
    """A row of the table: the first of several cases stands for all."""
    told = names[0].removeprefix("test_")
    several = f"`{told}` and {len(names) - 1} more" if len(names) > 1 else f"`{told}`"
    cells = (why.operator, several, sentence(why.why), sentence(why.cure))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def sentence(text: str) -> str:
    """The text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + "."


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    args = cli.parse_args()
    text = table()
    if args.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
