"""`surgeon kernels`: recorded engines are read as they were measured, and what is not understood is refused."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Collection
from pathlib import Path

import engine_texts
import onnx
import onnx.parser
import pytest
from helpers import model
from program import on_terminal

import surgeon
from surgeon.app.cli import main
from surgeon.errors import EngineError
from surgeon.trt.fix import fix
from surgeon.trt.inspector import program_of
from surgeon.trt.kernels import kernels, parts
from surgeon.trt.profiles import typical_shapes
from surgeon.trt.program import COPY, Engine, Program, engine_of, summary

RTX = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None, reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'"
)
Captured = pytest.CaptureFixture[str]
# name -> (kernels, copies, fused attention, attentions, bytes, weights, uncounted tensors, branches)
MEASURED = {
    "attention_fp16": (5, 3, 1, 1, 53256, 8200, 0, False),
    "attention_fp32": (7, 3, 0, 1, 196632, 16408, 0, False),
    "dynamic": (5, 3, 1, 1, 8200, 8200, 8, False),
    "gather": (1, 0, 0, 0, 32160, 32000, 0, False),
    "if": (4, 1, 0, 0, 1033, 264, 0, True),
    "int8": (3, 1, 0, 0, 20864, 2436, 0, False),
    "loop": (5, 3, 0, 0, 912, 0, 0, True),
    "static": (4, 2, 0, 0, 32608, 864, 0, False),
    "two_profiles": (3, 0, 0, 0, 424, 256, 0, False),
}


def recorded(name: str) -> bytes:
    return engine_texts.engine(engine_texts.texts(name))


def measures(p: Program) -> tuple[object, ...]:
    return len(p.kernels), p.copies, *p.attention, p.bytes, p.weights, p.uncounted, p.branches


def write(folder: Path, name: str) -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(engine_texts.model(name), path)
    return path


# ---- recorded engines ------------------------------------------------------------------------------------------------


def test_each_recorded_engine_has_its_measures() -> None:
    assert sorted(MEASURED) == engine_texts.NAMES


@pytest.mark.parametrize("name", MEASURED)
def test_a_recorded_engine_is_read(name: str) -> None:
    engine = engine_of(recorded(name))
    assert engine.runtime == "TensorRT-RTX 1.7.1.116" and len(engine.programs) == (2 if name == "two_profiles" else 1)
    assert measures(engine.programs[0]) == MEASURED[name]


def _without_counts(engine: Engine) -> str:
    """Its programs without the number that TensorRT-RTX gives each loop of all engines that one process builds."""
    return re.sub(r"Recurrence \d+", "Recurrence", repr(engine.programs))


@RTX
@pytest.mark.parametrize("name", MEASURED)
def test_what_is_built_here_is_read(name: str) -> None:
    """The same as recorded where that TensorRT-RTX is installed; another one is read or refused in a sentence."""
    try:
        engine = engine_of(engine_texts.built(name))
    except EngineError as error:
        assert "cannot be read" in str(error) and "TensorRT-RTX 1.7.1.116" not in str(error)
        return
    if engine.runtime == "TensorRT-RTX 1.7.1.116":
        assert _without_counts(engine) == _without_counts(engine_of(recorded(name)))
    assert engine.programs[0].kernels


def test_a_kernel_says_what_it_computes_of_which_nodes_in_which_types() -> None:
    kernels = engine_of(recorded("int8")).programs[0].kernels
    assert [(k.computes, k.nodes, k.types) for k in kernels] == [
        (("Mul", "Min", "Max", "Round", "Cast"), ("q",), "fp32 -> int8"),
        (("Conv", "Relu"), ("conv", "dq", "dqw", "relu"), "int8, fp32 -> fp32"),
        (("Transpose",), (), "fp32"),
    ]
    assert [(k.bytes_read, k.bytes_written) for k in kernels] == [(4096, 1024), (3456, 4096), (4096, 4096)]


def test_the_program_of_a_fused_kernel_is_a_part_of_that_kernel() -> None:
    texts = engine_texts.texts("static")
    assert len(texts) == 2 and "runtime-fusion-consts" in texts[1]
    assert [k.computes for k in engine_of(recorded("static")).programs[0].kernels] == [
        ("Move",),
        ("Conv", "Silu"),
        ("MaxPool",),
        ("Move",),
    ]


def test_bodies_of_an_if_have_the_names_of_their_nodes() -> None:
    nodes = [k.nodes for k in engine_of(recorded("if")).programs[0].kernels]
    assert nodes == [(), ("if", "relu"), ("if", "softmax"), ("if", "product")]


def test_each_profile_has_its_program() -> None:
    first, second = engine_of(recorded("two_profiles")).programs
    assert (first.profile, second.profile) == (0, 1) and (first.uncounted, second.uncounted) == (0, 3)
    assert [k.nodes for k in second.kernels] == [("product",), ("softmax",)]


def test_a_node_called_like_a_kernel_is_not_one() -> None:
    texts = [t.replace('"project"', '"/mha/project"') for t in engine_texts.texts("attention_fp32")]
    assert engine_of(engine_texts.engine(texts)).programs[0].attention == (0, 1)


def test_names_may_have_quotation_marks_and_braces() -> None:
    odd = 'a "b" } c={ d \\ é'
    text = engine_texts.texts("gather")[0]
    texts = [text.replace('"ids.1"', '"' + odd.replace("\\", "\\\\").replace('"', '\\"') + '"')]
    program = engine_of(engine_texts.engine(texts)).programs[0]
    assert odd in [t.name for t in program.kernels[0].reads] and measures(program) == MEASURED["gather"]


def test_of_a_table_that_gather_reads_all_rows_count_and_that_is_known() -> None:
    (kernel,) = engine_of(recorded("gather")).programs[0].kernels
    assert kernel.in_tables == 32000 and kernel.bytes_read == 32032


# ---- what is not understood ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("version = 5", "version = 6", "a program of version 6"),
        ("descriptors {", "tensors {", "a section 'tensors'"),
        ("header {", "header { {", "a brace without a name"),
        ("main {\n", "main {\n  jump={ to=bb1 }\n", "the instruction 'jump', of which it is not known"),
        ("input_args=", "inputs_of=", "the instruction 'function', of which it is not known"),
        ("output_args=", "outputs_of=", "the instruction 'function', of which it is not known"),
        ("type=float", "type=fp6", "the tensor '__mye78dconst' of type 'fp6'"),
        ("dims={", "sizes={", "the tensor '"),
        ('"x.1" offset', '"x.2" offset', "the tensor 'x.1', which is not described"),
        ("main {\n", 'main {\n "', "a quotation mark that is not closed"),
        ("main {\n", "main {\n  f={ a=", "a brace that is not closed"),
        ("  version = 5", "  version = ", "an equals sign without a name or a value"),
        ("region = {", "= {", "an equals sign without a name"),
    ],
)
def test_what_is_not_understood_is_refused_in_a_sentence(old: str, new: str, why: str) -> None:
    text = engine_texts.texts("static")[0]
    assert old in text
    with pytest.raises(EngineError) as caught:
        engine_of(engine_texts.engine([text.replace(old, new)]))
    said = str(caught.value)
    assert said.startswith(f"what it runs cannot be read: {why}"), said
    assert "by TensorRT-RTX 1.7.1.116; surgeon reads the programs of version 5" in said


def test_no_part_of_a_text_raises_anything_else() -> None:
    """Each line of a text is left out once, and the text is cut at many places."""
    text = engine_texts.texts("attention_fp16")[0]
    lines = text.splitlines(keepends=True)
    changed = ["".join(lines[:k] + lines[k + 1 :]) for k in range(len(lines))]
    changed += [text[:k] for k in range(0, len(text), 37)]
    refused = 0
    for one in changed:
        try:
            engine_of(engine_texts.engine([one]))
        except EngineError:
            refused += 1
    assert refused > len(changed) / 2


def test_an_engine_that_is_cut_off_is_refused() -> None:
    data = recorded("static")
    for end in (4, 20):
        with pytest.raises(EngineError, match=r"it is not an engine of TensorRT-RTX"):
            engine_of(data[:end])
    for end in (60, 200, 2000, len(data) - 1):
        with pytest.raises(EngineError, match="the engine was cut off"):
            engine_of(data[:end])


def test_an_engine_of_tensorrt_is_refused_with_its_own_command(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "gpu.engine"
    path.write_bytes(b"ftrt" + bytes(100))
    assert main(["kernels", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and f"'{path}': it is an engine of TensorRT, not of TensorRT-RTX" in printed.err
    assert "--dumpLayerInfo" in printed.err


def _of_tensorrt(name: str, names: Collection[str] = ()) -> Program:
    """What TensorRT 8.4.1.5 answered on an H200."""
    recorded = json.loads((engine_texts.FOLDER / f"tensorrt84_{name}.json").read_text())
    return program_of(json.dumps(recorded["inspector"]), recorded["ms"], 0, "sm90", names)


def test_the_inspector_of_tensorrt_is_read() -> None:
    program = _of_tensorrt("group_norm")
    assert [k.in_words for k in program.kernels] == [
        "Reduce",
        "ElementWise",
        "ElementWise",
        "Reduce",
        "PointWise",
        "Scale",
    ]
    square = program.kernels[2]
    assert (square.bytes_read, square.bytes_written) == (67108864, 67108864), "it reads its one input once"
    assert square.nodes == ("g~instance-norm/Mul_1",) and square.types == "fp32"
    assert program.milliseconds == pytest.approx(sum(k.milliseconds or 0 for k in program.kernels))
    assert summary(program).endswith(f"{program.milliseconds:.3f} ms")


def test_a_layer_of_tensorrt_has_the_nodes_of_the_model_alone() -> None:
    names = {"node_of_z", "g~instance-norm/Add_1", "node_of"}
    program = _of_tensorrt("group_norm", names)
    assert [k.nodes for k in program.kernels if k.nodes] == [("g~instance-norm/Add_1",), ("node_of_z",)]


def test_the_types_and_copies_of_an_int8_engine_of_tensorrt_are_read() -> None:
    program = _of_tensorrt("int8_silu")
    assert [k.types for k in program.kernels] == [
        "fp32 -> int8",
        "int8 -> fp32",
        "fp32",
        "fp32",
        "fp32 -> int8",
        "int8 -> fp32",
    ]
    assert [k.is_copy for k in program.kernels] == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "in a form that surgeon does not know"),
        ('{"Layers": ["node_of_y"]}', "the names of its layers alone"),
        (
            '{"Layers": [{"Name": "a", "Inputs": [{"Name": "x", "Format/Datatype": "FP7"}]}]}',
            "the type of tensor 'x': 'FP7'",
        ),
    ],
)
def test_an_answer_of_the_inspector_that_is_not_understood_is_refused(text: str, why: str) -> None:
    with pytest.raises(EngineError, match=why):
        program_of(text, {}, 0, "sm90")


# ---- two programs ----------------------------------------------------------------------------------------------------


def test_what_changed_is_found_where_it_is() -> None:
    before, after = (engine_of(recorded(f"attention_{t}")).programs[0] for t in ("fp32", "fp16"))
    found = {part.nodes: part for part in parts(before, after)}
    fused = found["scores", "softmax", "values"]
    assert (len(fused.before), len(fused.after), fused.more_bytes) == (3, 1, 12288 - 114704)
    assert len(found) == 5 and not any(part.is_same for part in found.values())
    assert all(part.is_same for part in parts(after, after))
    assert summary(after, before) == "5 kernels (7 before), 53.3 kB moved (196.6), attention fused 1 of 1"


def test_what_is_symbolic_is_said_to_be_uncounted() -> None:
    said = summary(engine_of(recorded("dynamic")).programs[0])
    assert said == "5 kernels, 8.2 kB moved without 8 tensors of symbolic sizes, attention fused 1 of 1"


@pytest.mark.parametrize("name", ["if", "loop"])
def test_what_may_run_several_times_is_said_to_count_once(name: str) -> None:
    assert summary(engine_of(recorded(name)).programs[0]).endswith("each kernel of a loop or an If counted once")


@pytest.mark.parametrize(("name", "copies"), [("__myl_ReplConcTran", True), ("__myl_ReplAdd", False)])
def test_a_kernel_that_repeats_elements_is_a_copy(name: str, copies: bool) -> None:
    assert (COPY.fullmatch(name) is not None) is copies


# ---- the command -----------------------------------------------------------------------------------------------------


@RTX
def test_the_table_has_each_kernel_and_the_totals(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, "int8")
    assert main(["kernels", str(path)]) == 0
    printed = capsys.readouterr()
    title, *rows, copies, closing = printed.out.splitlines()
    assert title.startswith(f"{path}, TensorRT-RTX ") and title.endswith(", compute capability 8.0")
    assert [" ".join(row.split()) for row in rows] == [
        "kernel 3 Transpose - fp32 0.004 MB read 0.004 written 39%",
        "kernel 2 Conv Relu conv +3 int8, fp32 -> fp32 0.003 MB read 0.004 written 36%",
        "kernel 1 Mul Min Max Round Cast q fp32 -> int8 0.004 MB read 0.001 written 25%",
    ]
    assert copies.startswith("1 kernel only copies; weights 2.4 kB, memory for activations ")
    assert closing == "3 kernels, 20.9 kB moved" and printed.err == ""


@RTX
def test_an_engine_is_read_as_its_model_is(tmp_path: Path, capsys: Captured) -> None:
    path, engine = write(tmp_path, "attention_fp16"), tmp_path / "built.engine"
    assert main(["build", str(path), str(engine), "--with", "rtx", "-q"]) == 0
    assert main(["kernels", str(engine), "--format", "json"]) == 0
    of_engine = json.loads(capsys.readouterr().out)
    assert main(["kernels", str(path), "--format", "json"]) == 0
    of_model = json.loads(capsys.readouterr().out)
    assert of_engine["programs"] == of_model["programs"] and of_engine["shapes"] == {}
    (program,) = of_model["programs"]
    assert program["kernel_count"] == len(program["kernels"]) == 5 and program["attention_fused"] == 1
    assert program["bytes"] == sum(k["bytes_read"] + k["bytes_written"] for k in program["kernels"])


@RTX
def test_another_model_is_built_for_the_same_sizes(tmp_path: Path, capsys: Captured) -> None:
    path, static = write(tmp_path, "dynamic"), write(tmp_path, "attention_fp32")
    assert main(["kernels", str(path), "--against", str(static), "--shapes", "x:1x32x64"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.count("built for x:1x32x64") == 1
    assert lines[-1] == "5 kernels (7 before), 53.3 kB moved (196.6), attention fused 1 of 1"
    assert any(line.split()[:7] == ["changed", "scores", "+2", "kernels", "3", "->", "1"] for line in lines)
    assert main(["kernels", str(static), "--against", str(path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["against"]["shapes"] == {"x": [1, 32, 64]} and found["changes"]


@RTX
@pytest.mark.parametrize(
    ("text", "elements"),
    [
        (
            "(float[1,3,64,64] x, int64[2] hw) => (float[a,b,c,d] y) <int64[2] n = {1, 3}> "
            '{ s = Concat <axis = 0> (n, hw) r = Resize <mode = "linear"> (x, , , s) y = Relu (r) }',
            3 * 128 * 128,
        ),
        ("(float[1,768] x, int64[3] s) => (float[a,b,c] y) { r = Reshape (x, s) y = Relu (r) }", 768),
    ],
)
def test_an_input_that_decides_a_size_has_a_usual_value(text: str, elements: int, tmp_path: Path) -> None:
    onnx.save(model(text), tmp_path / "m.onnx")
    (kernel,) = kernels(tmp_path / "m.onnx", runtime="rtx").program.kernels
    assert kernel.bytes_written == 4 * elements


@RTX
def test_a_compute_capability_is_chosen(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, "attention_fp16")
    for asked, shown in (("7.5", "7.5"), ("sm89", "8.9"), ("120", "12.0")):
        assert main(["kernels", str(path), "--compute-capability", asked]) == 0
        assert f"compute capability {shown}\n" in capsys.readouterr().out
    assert main(["kernels", str(path), "--compute-capability", "5.0"]) == 2
    assert "no compute capability '5.0'" in capsys.readouterr().err


@RTX
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--shapes", "y:1x2"], 2, "the model has no input 'y'"),
        (["--shapes", "x:1x32"], 2, "the input 'x' has 3 dimensions"),
        (["--shapes", "x:1x32x65"], 2, "the input 'x' is NxTx64, and cannot be 1x32x65"),
        (["--against", "no such file"], 2, "there is no file 'no such file'"),
    ],
)
def test_what_cannot_be_asked_for_is_said(
    words: list[str], status: int, said: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["kernels", str(write(tmp_path, "dynamic")), *words]) == status
    printed = capsys.readouterr()
    assert said in printed.err and printed.out == ""


def test_shapes_are_not_for_engines(tmp_path: Path, capsys: Captured) -> None:
    engine = tmp_path / "recorded.engine"
    engine.write_bytes(recorded("static"))
    assert main(["kernels", str(engine), "--shapes", "x:1x3x16x16"]) == 2
    assert "--shapes and --compute-capability are for models" in capsys.readouterr().err
    assert main(["kernels", str(engine)]) == 0
    assert capsys.readouterr().out.endswith("4 kernels, 32.6 kB moved\n")


def test_what_is_counted_otherwise_is_said(tmp_path: Path, capsys: Captured) -> None:
    for name, said in (
        ("gather", "32.0 kB of what is read are tables of which Gather reads some rows: all rows are counted"),
        ("loop", "a loop or an If is in it: each kernel counts once, however often it runs"),
        ("dynamic", "8 tensors of symbolic sizes: they count for no bytes"),
        ("two_profiles", "2 programs, for other profiles or GPUs: this is the first, --format json has all"),
    ):
        engine = tmp_path / name
        engine.write_bytes(recorded(name))
        assert main(["kernels", str(engine)]) == 0
        assert said in capsys.readouterr().out.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("against", [False, True])
def test_the_table_fits_a_terminal(columns: int, against: bool, tmp_path: Path) -> None:
    long = [t.replace("Layer: s", f"Layer: {'/model' * 30}/s") for t in engine_texts.texts("attention_fp32")]
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(engine_texts.engine(long))
    second.write_bytes(recorded("attention_fp16"))
    status, lines = on_terminal(columns, "kernels", first, *(["--against", second] if against else []))
    table = [line for line in lines if "softmax" in line or line.lstrip().startswith(("#", "nodes"))]
    assert status == 0 and len(table) >= 2 and max(map(len, table)) <= columns


# ---- fix and build ---------------------------------------------------------------------------------------------------


@RTX
def test_fix_says_what_runs_before_and_after(tmp_path: Path, capsys: Captured) -> None:
    path, out = write(tmp_path, "attention_fp32"), tmp_path / "half.onnx"
    assert main(["fix", str(path), "--for", "rtx", "--fp16", "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (said,) = [line for line in lines if " moved" in line]
    assert re.fullmatch(r"\d+ kernels \(7 before\), [\d.]+ kB moved \(196.6\), attention fused [01] of 1", said)
    written = out.read_bytes()
    assert main(["fix", str(path), "--for", "10.9", "--fp16", "-o", str(out)]) == 0
    assert " moved" not in capsys.readouterr().out
    assert surgeon.rewrite(path, target="rtx", fp16=True).model.SerializeToString(deterministic=True) == written


@RTX
def test_fix_says_for_which_sizes_and_that_the_original_does_not_build(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[N,3,4] x) => (float[N,3,1] y) {
      one = Constant <value = int64[1] {-1}> ()
      all = Constant <value_ints = [-1]> ()
      axes = Reshape (one, all)
      y = ReduceMax <keepdims = 1> (x, axes)
    }"""
    onnx.save(onnx.parser.parse_model(text), source)
    fixed = fix(source, target="rtx")
    assert fixed.kernels == "1 kernel, 0.1 kB moved; TensorRT-RTX does not build the original; built for x:1x3x4"
    assert fixed.kernels in repr(fixed)
    assert "before" not in fix(onnx.load(source), tmp_path / "out.onnx", target="rtx").kernels


@RTX
def test_fix_gives_up_an_engine_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surgeon.trt.kernels.SECONDS", 0.01)
    fixed = fix(write(tmp_path, "attention_fp32"), target="rtx")
    why = "TensorRT-RTX takes longer than 0.01 s to build it"
    assert fixed.ok and fixed.kernels == f"the kernels are not counted: {why}"
    assert fixed.built is not None and str(fixed.built).startswith("the command below was not tried: TensorRT-RTX 1.")


@RTX
def test_without_tensorrt_rtx_nothing_is_guessed_and_the_bytes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path, "static")
    first = fix(source, tmp_path / "first.onnx", target="rtx")
    assert first.kernels.startswith("4 kernels (4 before), 32.6 kB moved (32.6)")
    monkeypatch.setattr("surgeon.trt.refusals.installed_version", lambda module: "")
    second = fix(source, tmp_path / "second.onnx", target="rtx")
    assert second.kernels == "" and first.path.read_bytes() == second.path.read_bytes()


@RTX
def test_the_page_has_the_line_and_a_bar_for_each_kernel(tmp_path: Path) -> None:
    path, page = write(tmp_path, "static"), tmp_path / "report.html"
    words = ["rewrite", str(path), str(tmp_path / "out.onnx"), "-q", "--report", str(page)]
    assert main([*words, "--target", "rtx"]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<p>4 kernels (4 before), 32.6 kB moved (32.6)</p>" in text and '<a href="#kernels">' in text
    assert re.findall(r'class="bar"><span style="width: ([\d.]+%)"></span>(\d+%)', text) == [
        ("50.7%", "19%"), ("100.0%", "37%"), ("84.4%", "31%"), ("33.8%", "13%"),
    ]  # fmt: skip
    assert main([*words, "--target", "10.9"]) == 0 and "kernels" not in page.read_text(encoding="utf-8").lower()
    assert main(["fix", str(path), "--for", "rtx", "-q", "--report", str(page)]) == 0
    assert "<p>4 kernels (4 before), 32.6 kB moved (32.6)</p>" in page.read_text(encoding="utf-8")


@RTX
def test_build_says_what_the_engine_runs(tmp_path: Path, capsys: Captured) -> None:
    words = ["build", str(write(tmp_path, "dynamic")), str(tmp_path / "out.engine"), "--with", "rtx", "--profile"]
    assert main([*words, "x:1x16x64,2x32x64,4x64x64"]) == 0
    said = "5 kernels, 8.2 kB moved without 8 tensors of symbolic sizes, attention fused 1 of 1"
    assert said in capsys.readouterr().out.splitlines()


def test_sizes_that_nothing_runs_are_those_of_the_file() -> None:
    proto = model("(float[N,9223372036854775807] x) => (float[N,9223372036854775807] y) { y = Relu (x) }")
    assert typical_shapes(proto, None, {}, {}) == {"x": [1, 9223372036854775807]}
