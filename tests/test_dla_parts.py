"""How a model splits between a DLA and the GPU beside it."""

from __future__ import annotations

from helpers import model

import surgeon

HEAD = """(float[1,8,8,8] x) => (float[1,64,8] y) <float[8,8,1,1] w = {WEIGHTS}, int64[3] s = {1, 64, 8}> {
    c = Conv (x, w)
    r = Reshape (c, s)
    a = Sigmoid (r)
    t = Transpose <perm = [0, 2, 1]> (a)
    y = Transpose <perm = [0, 2, 1]> (t)
}"""


def said(text: str) -> list[str]:
    body = text.replace("WEIGHTS", ", ".join(["1"] * 64))
    return [w for w in surgeon.check(model(body), target="8.6+dla").warnings if w.startswith("DLA runs")]


def test_a_cut_before_the_first_node_of_the_gpu_leaves_one_part() -> None:
    (found,) = said(
        HEAD.replace("Transpose <perm = [0, 2, 1]> (a)", "Elu (a)").replace(
            "Transpose <perm = [0, 2, 1]> (t)", "Tanh (t)"
        )
    )
    assert found.startswith("DLA runs 3 of 5 nodes, and 4 tensors pass between it and the GPU; cut the model at 'c': ")
    assert found.endswith("and 1 tensor passes instead of 4")


def test_what_needs_no_cut_has_none() -> None:
    (found,) = said(
        HEAD.replace("Transpose <perm = [0, 2, 1]> (a)", "Elu (a)")
        .replace("Transpose <perm = [0, 2, 1]> (t)", "Elu (t)")
        .replace("Sigmoid", "Elu")
    )
    assert found == "DLA runs 1 of 5 nodes, and 1 tensor passes between it and the GPU"
    assert said("(float[1,8,8,8] x) => (float[1,8,8,8] y) { y = Relu (x) }") == []
