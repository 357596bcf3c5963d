"""The HTML report: one page that is alone, well formed, for 0 and for 2,000 rewrites."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import helpers
import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

import surgeon
from surgeon.html.drawing import Sketch, draw, sketch
from surgeon.html.page import MOST_DRAWN, MOST_ROWS, render
from surgeon.precision import convert
from surgeon.report import Declined, Report

VOID = {"meta", "br", "input", "!doctype"}
rng = np.random.default_rng(3)


class Page(HTMLParser):
    """Checks that every tag is closed, and keeps the text, the tags and what would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.places: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "data", "action")]
        self.places += [given["id"] or ""] if "id" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script", "title"):
            self.text.append(data)


def page_of(text: str) -> Page:
    page = Page(text)
    assert all(link[:1] == "#" and link[1:] in page.places for link in page.links), "it fetches nothing, and links work"
    assert len(page.places) == len(set(page.places))
    assert page.tags.count("script") == 1 and not re.search(r"url\(|@import|fetch\(|import\(", text)
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(svg)
    return page


def norms(count: int) -> ModelProto:
    """A chain of `count` spelled-out L2 norms; the names need escaping."""
    nodes, tensors, last = [], [numpy_helper.from_array(np.float32(1e-12), "eps")], "x"
    for k in range(count):
        nodes += [
            helper.make_node("ReduceL2", [last], [f"n{k}"], axes=[1], keepdims=1, name=f"<norm&{k}>"),
            helper.make_node("Clip", [f"n{k}", "eps"], [f"c{k}"]),
            helper.make_node("Shape", [last], [f"s{k}"]),
            helper.make_node("Expand", [f"c{k}", f"s{k}"], [f"e{k}"]),
            helper.make_node("Div", [last, f"e{k}"], [f"<y{k}>"], name=f"<div&{k}>"),
        ]
        last = f"<y{k}>"
    kinds = [helper.make_tensor_value_info(n, 1, ["N", 8]) for n in ("x", last)]
    return helper.make_model(
        helper.make_graph(nodes, "g", kinds[:1], kinds[1:], tensors),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )


def test_a_rewrite_is_drawn_before_and_after() -> None:
    result = surgeon.rewrite(norms(1), target="8.4")
    assert [a.pass_name for a in result.report.applied] == ["l2-norm"]
    text = render(result.report, title="a<b>.onnx", written="out.onnx")
    page = page_of(text)
    assert text.count("<svg") == 2 and page.tags.count("table") >= 1
    said = " ".join(page.text)
    assert "a<b>.onnx" in said and "proved" in said and "TensorRT 8.4" in said and "1e-12" in said
    assert "<div&0>" in said and "<norm&0>" not in text.replace("&lt;norm&amp;0&gt;", "")
    before, after = re.findall(r"<svg.*?</svg>", text, re.S)
    assert ">Expand</text>" in before and ">Expand</text>" not in after and ">Div</text>" in after


def test_quantizers_are_measured_and_not_proved() -> None:
    """Their error is that of the outputs, not of a window."""
    quantized = """(float[2,8] x) => (float[2,8] y) <float s = {0.1}, uint8 z = {3}> {
        q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)
        y = Relu (d)
    }"""
    report = surgeon.rewrite(helpers.model(quantized), target="10.9", symmetric_int8=True).report
    assert [a.grade for a in report.applied] == ["measured"]
    page = render(report)
    assert '<span class="pill good">measured</span>' in page and "proved</span>" not in page
    assert (
        "<b>-</b><span>largest error of a window" in page and "<span>how much the quantizers change the outputs" in page
    )


def test_what_is_prepared_is_listed_without_a_drawing() -> None:
    model = helpers.model("(float[1,4] x) => (float[1,4] y) { y = Relu (x) }")
    page = render(surgeon.rewrite(model, target="rtx", dynamic_batch=True).report)
    assert "dynamic-batch" in page and "the inputs" in page and "<svg" not in page


def test_no_rewrite() -> None:
    result = surgeon.rewrite(helpers.model("(float[N,4] x) => (float[N,4] y) { y = Relu (x) }"), target="10.9")
    said = " ".join(page_of(render(result.report)).text)
    assert "Nothing to rewrite." in said and "nothing written" in said and "proved" not in said.split("Rewrites")[0]


def test_two_thousand_rewrites() -> None:
    """One shape, drawn once; the table of all of them is cut and says so."""
    result = surgeon.rewrite(norms(2000), target="8.4", verify="none")
    assert len(result.report.applied) == 2000
    text = render(result.report)
    page = page_of(text)
    assert text.count("<svg") < 20 and len(text) < 1_000_000
    said = " ".join(page.text)
    assert "1999 more of this shape" in said or "1998 more of this shape" in said
    assert f"{2000 - MOST_ROWS} more rows" in said and "not proved" in said


def test_many_shapes_of_window() -> None:
    """More different windows than a page draws: it says how many it leaves out."""
    report = surgeon.rewrite(norms(1), target="8.4").report
    first = report.applied[0]
    chains = []
    for k in range(MOST_DRAWN + 5):
        model = surgeon.ir.model.Model(_chain(k + 1))
        chains.append(
            first._replace(
                root=f"r{k}",
                change=SimpleNamespace(
                    output_names=["y"],
                    read_instead=[],
                    nodes_before=model.graph.live(),
                    nodes_after=model.graph.live()[:1],
                ),
            )
        )
    report.applied = chains
    text = render(report)
    page_of(text)
    assert text.count('class="window"') == MOST_DRAWN
    assert "5 more shapes of window are not drawn" in text
    assert "too many to draw" in text


def test_what_is_not_taken_has_its_cure() -> None:
    report = Report("0", "8.4")
    report.untaken = [
        Declined("", "m", "no importer"),
        Declined("", "n", "no importer"),
        Declined("", "o", "no importer"),
    ]
    text = render(report, cures=["TensorRT 9.0 supports it", "write a pass", "write a pass"])
    said = " ".join(page_of(text).text)
    assert "advice" in said and "TensorRT 9.0 supports it" in said and said.count("write a pass") == 1
    assert "advice" not in " ".join(page_of(render(report)).text)


def test_the_contents_stand_in_the_order_of_the_page() -> None:
    result = surgeon.rewrite(norms(1), target="8.4")
    text = render(result.report, precision=convert(result.model))
    links, headings = re.findall(r'<a href="#([a-z-]+)">[A-Z]', text), re.findall(r'<h2 id="([a-z-]+)"', text)
    assert links == headings and "precision" in links


def _chain(length: int) -> ModelProto:
    nodes = [
        helper.make_node("Relu", ["x" if not k else f"t{k}"], ["y" if k == length - 1 else f"t{k + 1}"])
        for k in range(length)
    ]
    kinds = [helper.make_tensor_value_info(n, 1, [4]) for n in ("x", "y")]
    return helper.make_model(
        helper.make_graph(nodes, "g", kinds[:1], kinds[1:]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )


def test_what_was_undone_declined_and_left() -> None:
    report = Report("0", "8.4")
    report.undone = [Declined("l2-norm", "<n>", "it differs by 3 & more")]
    report.declined = [Declined("gelu", f"n{k}", "the constant is 0.5") for k in range(900)]
    report.untaken = [Declined("", "m", "no importer")]
    report.warnings = ["an <epsilon> was lost"]
    report.verify = {"mode": "full", "skipped": [], "failed": "on random inputs it differs", "max_error": 0.5}
    said = " ".join(page_of(render(report)).text)
    for word in (
        "<n>",
        "it differs by 3 & more",
        "the constant is 0.5",
        "and 899 more",
        "no importer",
        "an <epsilon> was lost",
        "whole models differ",
        "needs a look",
    ):
        assert word in said, word


def test_precision_is_on_the_page() -> None:
    model = helpers.model("(float[N,8] x) => (float[N,8] y) { a = MatMul (x, w) b = Softmax (a) y = MatMul (b, w) }")
    model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float32), "w"))
    result = surgeon.rewrite(model, target="rtx")
    said = " ".join(page_of(render(result.report, precision=convert(result.model))).text)
    assert "converted to fp16" in said
    assert "Kept in fp32" in said and "Softmax" in said and "equal" in said


# ---- the drawing -----------------------------------------------------------------------------------------------------


def _sketch(body: str, **weights: np.ndarray) -> Sketch:
    proto = helpers.model(body)
    for name, array in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    model = surgeon.ir.model.Model(proto)
    return sketch(model.graph.live(), [o.name for o in proto.graph.output])


def test_boxes_edges_and_constants() -> None:
    drawn = _sketch(
        "(float[4,8] x) => (float[4,8] y) { n = ReduceL2 <axes = [1]> (x) c = Max (n, eps) y = Div (x, c) }",
        eps=np.float32(1e-6),
    )
    assert [(b.label, b.kind) for b in drawn.boxes] == [
        ("ReduceL2", "node"),
        ("Max", "node"),
        ("Div", "node"),
        ("x", "input"),
        ("y", "output"),
    ]
    assert drawn.boxes[0].detail == "axes=[1]" and drawn.boxes[1].detail == "1e-06"
    assert sorted(drawn.edges) == [(0, 1), (1, 2), (2, 4), (3, 0), (3, 2)]


def test_boxes_do_not_overlap_and_edges_go_down() -> None:
    drawn = _sketch(
        "(float[4,8] x, float[4,8] z) => (float[4,8] y, float[4,1] m) { m = ReduceMean <axes = [1]> (x) d = Sub (x, m) "
        "s = Mul (d, d) v = ReduceMean <axes = [1]> (s) "
        "r = Sqrt (v) q = Div (d, r) y = Add (q, z) }"
    )
    text = draw(drawn, "a & b")
    ElementTree.fromstring(text)
    for a, b in drawn.edges:
        assert drawn.boxes[b].y >= drawn.boxes[a].y + drawn.boxes[a].height
    for k, one in enumerate(drawn.boxes):
        for other in drawn.boxes[:k]:
            beside = abs(one.x - other.x) >= (one.width + other.width) / 2 - 0.01
            assert beside or one.y + one.height <= other.y or other.y + other.height <= one.y, (one, other)


def test_a_name_that_is_long_keeps_both_its_ends() -> None:
    drawn = _sketch(
        "(float[4] a_very_long_name_that_an_exporter_made_up_of_many_modules_output_0) => (float[4] y)"
        "{ y = Relu (a_very_long_name_that_an_exporter_made_up_of_many_modules_output_0) }"
    )
    box = next(b for b in drawn.boxes if b.kind == "input")
    assert (
        box.label.startswith("a_very_long")
        and box.label.endswith("output_0")
        and ".." in box.label
        and box.full.endswith("modules_output_0")
    )


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def in_chromium(folder: Path, text: str, script: str, width: int) -> str:
    """The title of a page after a script ran in it. (Headless Chromium gives no window under 500 pixels.)"""
    assert CHROMIUM is not None
    (folder / "r.html").write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", "--dump-dom",
         (folder / "r.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = re.search(r"<title>(.*?)</title>", done.stdout)
    assert found is not None, done.stderr[-500:]
    return found[1]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: the page's layout is measured by a browser")
@pytest.mark.parametrize("width", [1600, 500])
@pytest.mark.parametrize("count", [3, 500])
def test_the_page_is_no_wider_than_its_window(tmp_path: Path, width: int, count: int) -> None:
    """Wide tables and drawings scroll in their own boxes, and the summary is in the first screen."""
    result = surgeon.rewrite(norms(count), target="8.4", verify="none")
    page = render(result.report, precision=convert(result.model) if count == 3 else None)
    probe = (
        "const low = document.querySelector('#find').getBoundingClientRect().bottom;"
        "document.title = [document.documentElement.scrollWidth, innerWidth, Math.round(low), innerHeight].join('/')"
    )
    wide, window, low, high = map(int, in_chromium(tmp_path, page, probe, width).split("/"))
    assert wide <= window and low <= high


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: the search is a script")
def test_the_search_shows_what_holds_the_words(tmp_path: Path) -> None:
    report = surgeon.rewrite(norms(20), target="8.4", verify="none").report
    probe = """
        const input = document.querySelector('input'), rows = 'details.pass tr:not([hidden]) td.name';
        const said = [];
        for (const words of ['div&7', 'L2-NORM', 'nothing like it', '']) {
          input.value = words; input.dispatchEvent(new Event('input'));
          const pass = document.querySelector('details.pass');
          const state = pass.hidden ? ' hidden' : pass.open ? ' open' : ' closed';
          said.push(document.querySelectorAll(rows).length + state);
        }
        document.title = said.join('/');"""
    assert in_chromium(tmp_path, render(report), probe, 1200) == "1 open/20 open/0 hidden/20 closed"


def test_types_are_named() -> None:
    drawn = _sketch("(float[4] x) => (float16[4] y) { y = Cast <to = 10> (x) }")
    assert [b.detail for b in drawn.boxes if b.kind == "node"] == ["to=FLOAT16"]
    model = surgeon.ir.model.Model(helpers.model("(float[4] x) => (float16[4] y) { y = Cast <to = 10> (x) }"))
    assert model.graph.live()[0].text == "y = Cast(x, to=FLOAT16)"


def test_equal_reasons_are_one_row() -> None:
    report = surgeon.rewrite(norms(1), target="8.4").report
    report.untaken = [Declined("", f"/n/{k}", f"its input 'a{k}' has 2 dimensions") for k in range(7)]
    text = render(report)
    assert text.count("has 2 dimensions") == 1 and "its input &#x27;...&#x27; has" in text
    assert "and 6 more" in text and "/n/6" in text


def test_a_notebook_shows_the_pictures() -> None:
    result = surgeon.rewrite(norms(1), target="8.4")
    text = result._repr_html_()
    Page(text)
    assert text.count("<svg") == 2 and "TensorRT 8.4 supports all 3 nodes" in text
    assert text.startswith("<style>\n.surgeon {") and ":root" not in text and "body {" not in text
