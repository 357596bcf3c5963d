"""What ONNX Runtime's own operators are said to compute, in NumPy, held against its kernels where it has them."""

from __future__ import annotations

from dataclasses import replace

import casefile
import numpy as np
import onnx
import pytest

from surgeon.ir import contrib
from surgeon.ir.definitions import DEFINED, DEFINITIONS
from surgeon.ir.model import Model
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.feeds import feeds_of
from surgeon.proof.integers import plain_integers
from surgeon.proof.whole import whole_pair

CASES = sorted((casefile.HERE / "contrib").glob("*.onnxtxt"))
NO_KERNEL = {  # on the CPU; of half precision and of packed inputs neither
    "graphics_cards", "group_norm", "multi_head_packed", "multi_head_packed_pairs", "nhwc_conv", "quantized_mean",
    "skip_group_norm",
}  # fmt: skip
SHORT = {"embedding", "rotary"}  # a sample is no longer than the table of positions
ONE_STEP = 1  # ONNX Runtime's kernels of quantized numbers round some halves another way
ROUNDED = {"n_bits_rounded": 0.02}  # it rounds the other factor to eight bits, relative to the largest output


def _defined(model: onnx.ModelProto) -> bool:
    """Move all nodes that have a definition to its domain; whether there are any."""
    found = [n for n in model.graph.node if n.domain == contrib.DOMAIN and n.op_type in DEFINITIONS]
    for node in found:
        node.domain = DEFINED
    model.opset_import.append(onnx.helper.make_opsetid(DEFINED, 1))
    return bool(found)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_definition_is_what_the_kernel_computes(path) -> None:
    case = casefile.load(path)
    defined = onnx.ModelProto()
    defined.CopyFrom(case.model)
    if case.expected is None or path.stem in NO_KERNEL or not _defined(defined):
        pytest.skip("no kernel, or no definition")
    pair = replace(whole_pair(case.model, case.model), fixed={"S": 7} if path.stem in SHORT else {})
    kernel, definition = Runner(case.model), Runner(defined)
    compared = 0
    for sized in pair.sizes():
        _, feeds = next(feeds_of(sized, numbers=plain_integers(pair), below=2))
        expected, found = kernel.run(feeds), definition.run(feeds)
        for own, other in zip(found, expected, strict=True):
            compared += 1
            assert own.dtype == other.dtype
            assert own.shape == other.shape
            most = ROUNDED.get(path.stem, 2e-3 if own.dtype.itemsize == 2 else 1e-5) * max(np.abs(other).max(), 1e-6)
            gap = np.abs(own.astype(np.float64) - other.astype(np.float64)).max()
            assert gap <= (most if own.dtype.kind == "f" else ONE_STEP)
    assert compared


@pytest.mark.parametrize("name", sorted(NO_KERNEL))
def test_what_has_no_kernel_is_said_so(name: str) -> None:
    model = casefile.load(casefile.HERE / "contrib" / f"{name}.onnxtxt").model
    try:
        runner = Runner(model)
    except Unrunnable:
        return
    if runner.session is not None:
        sized = next(iter(whole_pair(model, model).sizes()))
        with pytest.raises(Unrunnable, match="not implemented"):
            runner.run(next(feeds_of(sized))[1])


def test_every_operator_has_a_schema_that_infers() -> None:
    for op in contrib.TABLE:
        assert contrib.schema(op) is not None


def test_shapes_behind_the_operators_are_known() -> None:
    for path in CASES:
        case = casefile.load(path)
        if case.expected is None:
            continue
        model = Model(case.model)
        for out in (v for n in model.graph.live() for v in n.outputs if v is not None and v.is_output):
            assert model.dtype(out), f"{path.stem}: {out.name}"
            assert model.shape(out) is not None, f"{path.stem}: {out.name}"
