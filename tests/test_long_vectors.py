"""Models whose values ONNX's inference cannot follow: of a long vector it keeps each element."""

from __future__ import annotations

import pytest
from helpers import model

import surgeon
from surgeon.ir.long_vectors import has_long_vector
from surgeon.ir.protos import all_nodes

DOUBLED = " ".join(f"c{k + 1} = Concat <axis = 0> (c{k}, c{k})" for k in range(25))
LONG = {
    "input": "(int64[67108864] x) => (int64[N] y) { y = Add (x, x) }",
    "weights": "(int64[N] x) => (int64[N] y) <int64[1] w = {0}> { y = Add (x, w) }",
    "range": "() => (int64 y) { a = Constant <value_int = 0> () b = Constant <value_int = 274877906944> () "
    "d = Constant <value_int = 1> () c = Range (a, b, d) y = Size (c) }",
    "shape of a constant": "() => (float[N] y) { b = Constant <value_ints = [99999]> () y = ConstantOfShape (b) }",
    "repeats": "(float[1] x) => (float[N] y) <int64[1] r = {99999}> { y = Tile (x, r) }",
    "expand": "(float[1] x) => (float[N] y) <int64[1] r = {99999}> { y = Expand (x, r) }",
    "target": "(float[N] x) => (float[N] y) <int64[1] r = {99999}> { y = Reshape (x, r) }",
    "depth": "(int64[1] x) => (int64[M,N] y) <int64 d = {99999}, int64[2] v = {0, 1}> { y = OneHot (x, d, v) }",
    "scales": "(float[1] x) => (float[N] y) <float[1] s = {99999.0}> { y = Resize (x, , s) }",
    "pads": "(float[1] x) => (float[N] y) <int64[2] p = {0, 99999}> { y = Pad (x, p) }",
    "product": "(float[1] x) => (float[N] y) <int64[1] r = {999}> { s = Mul (r, r) y = Tile (x, s) }",
    "power": "(float[1] x) => (float[N] y) <int64[1] r = {10}, int64 e = {9}> { s = Pow (r, e) y = Tile (x, s) }",
    "quotient": "(float[1] x) => (float[N] y) <float[1] a = {1.0}, float[1] b = {0.00001}> "
    "{ q = Div (a, b) s = Cast <to = 7> (q) y = Tile (x, s) }",
    "doubled": f"() => (int64[N] y) {{ c0 = Constant <value_ints = [1]> () {DOUBLED} y = Cast <to = 7> (c25) }}",
    "doubled shape": f"(float[3] x) => (float y) {{ c0 = Shape (x) {DOUBLED} y = ConstantOfShape (c25) }}",
    "in a body": "(bool c, float[1] x) => (float[N] y) <int64[1] r = {99999}> { y = If (c) <then_branch = t () => "
    "(float[N] p) { p = Tile (x, r) }, else_branch = e () => (float[N] q) { q = Neg (x) }> }",
}
SHORT = {
    "image": "(float[1,3,640,640] x) => (float[N] y) { y = Relu (x) }",
    "filled": "(float[1] x) => (float[N] y) <int64[2] p = {0, 1}, float v = {-1e9}> { y = Pad (x, p, v) }",
    "to the end": "(float[9] x) => (float[N] y) <int64[1] a = {0}, int64[1] e = {9223372036854775807}> "
    "{ y = Slice (x, a, e) }",
    "positions": "(float[N,9] x) => (int64[M] y) <int64 a = {0}, int64 b = {1}, int64 i = {0}> "
    "{ s = Shape (x) n = Gather (s, i) y = Range (a, n, b) }",
    "mask": "(float[N] x) => (float[A,B,C] y) <int64[3] s = {64, 112, 112}> { y = ConstantOfShape (s) }",
}


@pytest.mark.parametrize(("name", "long"), [*((n, True) for n in LONG), *((n, False) for n in SHORT)])
def test_has_long_vector(name: str, long: bool) -> None:
    proto = model((LONG | SHORT)[name])
    if name == "weights":
        proto.graph.initializer[0].dims[0] = 1 << 21
    assert has_long_vector(proto.graph, all_nodes(proto.graph)) is long


def test_a_constant_that_no_machine_holds_stays() -> None:
    """230 bytes, of which the inference made 15 GB."""
    result = surgeon.rewrite(model(LONG["range"]), target="10.9")
    assert "Range" in [n.op_type for n in result.model.graph.node]
