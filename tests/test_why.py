"""`surgeon why`: real threads and the cause of each, the node in a model, and what is printed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from helpers import model

from surgeon.app.cli import main
from surgeon.targets.target import Target
from surgeon.trt.causes import CAUSES, Weight
from surgeon.trt.why import in_model, release_of, why

THREADS = Path(__file__).parent / "threads"
NOT_KNOWN = "not known"
FILES = ("seen.txt", "unseen.txt", "recent.txt")
Captured = pytest.CaptureFixture[str]


WITHOUT_THREAD = [  # what programs print that no thread here quotes
    (
        "PluginV2Layer must be V2Ext or V2IOExt or V2DynamicExt when there is no implicit batch dimension.",
        "plugin-refused",
    ),
    ("This version of TensorRT does not support training_mode == 1 in BatchNormalization.", "normalization-form"),
    ("Slice_4: slice is out of input range, input dimensions = [4,3,608,608]", "slice-range"),
    (
        "ERROR: builtin_op_importers.cpp:12 In function importGather:\n[8] Assertion failed: axis < 3",
        "refused-node",
    ),
    ("In function importPad:\n[8] Assertion failed: inputs.at(1).is_weights()", "computed-input"),
    ("In node 0 (importModel): INVALID_GRAPH: Assertion failed: something", NOT_KNOWN),
    ("Unknown option: --fp16", "removed-precision-flag"),
    ("IElementWiseLayer with operation SUM has incompatible types Int32 and Int64", "mixed-integers"),
    ("[E] Unknown option: --calib calibration.cache", "removed-calibrator"),
    ("[E] Unknown option: --workspace 4096", "removed-option"),
    (
        "Error Code 4: Internal Error (Int8 precision has been set for a layer or layer output, but int8 is not "
        "configured in the builder)",
        "types-not-allowed",
    ),
    ("ModuleNotFoundError: No module named 'tensorrt'", "tensorrt-not-installed"),
    ('Message type "onnx2trt_onnx.ModelProto" has no field named "html".', "web-page"),
    (
        "google.protobuf.message.DecodeError: Error parsing message with type 'onnx.ModelProto'",
        "not-a-model",
    ),
    (
        "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for ConvTranspose(22) node",
        "ort-not-implemented",
    ),
    ("Fatal error: mmdeploy:TRTBatchedNMS(-1) is not a registered function/op", "custom-operator"),
    (
        "Error Code 1: Myelin ([type.cpp:186: infer_type] Could not infer output types for operation:    35: deconv: "
        "t-(bf16[1,6,16,16][]so[], mem_prop=0, align=2) | xb-(bf16[1,4,8,8][]so[], mem_prop=0, align=2)",
        "bf16-conv-transpose",
    ),
    ("Could not infer output types for operation: 3: erf: y-(bf16[1,6])", "type-inference"),
    ("condition: mContext.allInputDimensionsSpecified()", "input-shape-not-set"),
    ("[E] Engine could not be created from network", "build-failed"),
    ("[TRT] [E] DLA Node compilation Failed.", "dla-compile"),
    (
        "(x: kMIN dimensions in profile 0 are [1,3,640,640] but input has static dimensions [8,3,640,640].)",
        "profile-shapes",
    ),
    (  # NVIDIA/TensorRT#2739, Stable-Diffusion-WebUI-TensorRT#208
        "condition: profileMaxDims.d[i] >= dimensions.d[i]. Supplied binding dimension [10,3,128,64] for bindings[0] "
        "exceed min ~ max range at index 0, maximum dimension in profile is 1, minimum dimension in profile is 1",
        "profile-shapes",
    ),
    (  # pytorch/TensorRT#4610
        "(Invalid optimization profiles for input tensors dynamic_rows, please ensure that the optimization profiles "
        "satisfy MIN<=OPT<=MAX. In isValid at /_src/optimizer/api/optimizationProfile.cpp:357)",
        "profile-shapes",
    ),
    (  # NVIDIA/TensorRT#939
        "x: for dimension number 1 in profile 0 does not match network definition (got min=100, opt=1024, max=4096)",
        "profile-shapes",
    ),
    (  # NVIDIA/Model-Optimizer#70
        "API Usage Error (Networks with FP8 Q/DQ layers require hardware with FP8 support.)",
        "bf16-hardware",
    ),
    (  # NVIDIA/TensorRT#3399: a GPU that is newer than the release
        "Internal Error (Networks with QuantizeLayer/DequantizeLayer layers require hardware with Int8 support.)",
        "bf16-hardware",
    ),
    ("/Loop: cannot infer the shape of scan output since no trip limit was set.", "loop-limit"),
    ("[E] [TRT] ModelImporter.cpp:739: Failed to parse ONNX model from file: m.onnx", "build-failed"),
    ("NonZero plugin creator version 1 was not found in plugin registry.", "unsupported-operator"),
    ("[E] Failed to open file: transformer.wte.weight", "external-data-missing"),
    ("API Usage Error (Output shape can not be computed for node /Reshape_3.)", "shape-not-known"),
    ("Internal Error (Networks with BF16 precision require hardware with BF16 support.)", "bf16-hardware"),
    ("IExecutionContext::enqueueV3: Error Code 1: Cask (Cask convolution execution)", "kernel-start"),
    ("Neither address or allocator is set for input tensor images.)", "no-address"),
    ("Error Code 1: Cudnn (cudnnGraphUtils.cpp:391: CUDNN_STATUS_NOT_SUPPORTED)", "cudnn"),
    (
        "ICudaEngine::createExecutionContext: Error Code 1: Myelin ([myelin_cubin.h:readEnvVar:200] Function "
        "cuModuleLoadDataEx failed with 209)",
        "gpu-too-new",
    ),
    (
        "Internal Error (plugin node /bert/Attention requires 5368709120 bytes of scratch space, but only "
        "1073741824 is available.)",
        "out-of-memory",
    ),
    ("TypeError: set_memory_pool_limit(): incompatible function arguments.", "python-argument"),
    ("RuntimeError: TensorRT does not currently build wheels for Tegra systems", "no-wheel"),
    (
        "torch_tensorrt.dynamo._exceptions.UnsupportedOperatorException: Conversion of function "
        "torch._ops.aten.nonzero.default not currently supported!",
        "torch-converter",
    ),
    ("INetworkDefinition::addScatter: condition: indices.getType() == DataType::kINT32)", "unsupported-type"),
]


def threads(name: str) -> Iterator[tuple[str, str, str]]:
    """(cause, thread, text) of each text in a file."""
    for block in (THREADS / name).read_text(encoding="utf-8").split("\n==== ")[1:]:
        head, _, text = block.partition("\n")
        cause, _, thread = head.rpartition(" ")
        yield cause, thread, text


def answer(text: str) -> str:
    found = why(text)
    return found[0].cause.name if found else NOT_KNOWN


def test_nine_in_ten_threads_get_their_cause_and_the_rest_none() -> None:
    """At least 60 texts; what is not answered right is not answered at all."""
    answers = [(cause, answer(text), thread) for name in FILES for cause, thread, text in threads(name)]
    wrong = [(cause, got, thread) for cause, got, thread in answers if got != cause]
    assert len(answers) >= 100
    assert len(wrong) <= len(answers) // 10, wrong
    assert [w for w in wrong if w[1] != NOT_KNOWN] == []


def test_every_text_has_a_thread_and_every_cause_a_text() -> None:
    found = [entry for name in FILES for entry in threads(name)]
    assert all(
        re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+", thread) for _, thread, _ in found
    )
    assert len({thread for _, thread, _ in found}) == len(found)
    without_text = {cause.name for cause in CAUSES} - {cause for cause, _, _ in found}
    in_the_document = {"normalization-form", "plugin-refused"}
    of_other_texts = {cause for _, cause in WITHOUT_THREAD}
    assert without_text == in_the_document | (of_other_texts - {cause for cause, _, _ in found})


def messages() -> list[str]:
    """The messages of docs/trt-support.md section 11, which are in the parsers' source."""
    document = (Path(__file__).parents[1] / "docs/trt-support.md").read_text(encoding="utf-8")
    table = document.split("## 11. Error messages")[1].split("## 11b")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [text for row in rows for text in re.findall("`([^`]+)`", row) if len(text) > len("…3D, 4D, or 5D…")]


@pytest.mark.parametrize("message", messages())
def test_the_messages_of_the_parsers_source_are_known(message: str) -> None:
    assert answer(f"[8] Assertion failed: {message}") != NOT_KNOWN


@pytest.mark.parametrize(("text", "cause"), WITHOUT_THREAD)
def test_what_no_thread_shows(text: str, cause: str) -> None:
    assert answer(text) == cause


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.name)
def test_a_row_says_all_of_it_in_sentences(cause: object) -> None:
    assert isinstance(cause, type(CAUSES[0]))
    assert cause.means.endswith(".") and cause.helps.endswith(".")
    typed = cause.command.format(model="m.onnx", target="8.4")
    assert "{" not in typed
    assert cause.search.search("[I] Finished parsing network model. Parse time: 0.1") is None


@pytest.mark.parametrize(
    "innocent",
    [
        "",
        "&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=m.onnx",
        "[I] [TRT] No importer registered for op: Mine. Attempting to import as plugin.\n"
        "[I] [TRT] Searching for plugin: Mine, plugin_version: 1, plugin_namespace: \n"
        "[I] [TRT] Successfully created plugin: Mine",
        "[W] [TRT] Some tactics do not have sufficient workspace memory to run.",
    ],
)
def test_what_is_no_error_is_not_known(innocent: str) -> None:
    assert answer(innocent) == NOT_KNOWN


def test_an_error_goes_before_warnings_and_the_first_before_later_ones() -> None:
    log = (
        "[W] onnx2trt_utils.cpp:222: One or more weights outside the range of INT32 was clamped\n"
        "[E] If_1_OutputLayer: IIfConditionalOutputLayer inputs must have the same shape.\n"
        "[E] Network has dynamic or shape inputs, but no optimization profile has been defined.\n"
    )
    assert [f.cause.name for f in why(log)] == ["if-branches", "no-profile", "int64-clamped"]
    assert why(log)[0].node == "If_1"
    assert why(log)[2].cause.weight is Weight.HINT


def test_the_release_that_learned_an_operator_is_said() -> None:
    (found, *_) = why("[E] 3: getPluginCreator could not find plugin: Round version: 1")
    assert (found.operator, found.says) == ("Round", "TensorRT imports Round from 8.2 on.")
    (found, *_) = why("[E] 3: getPluginCreator could not find plugin: Det version: 1")
    assert found.says == "Det is an operator of ONNX that no TensorRT of the table imports."
    (found, *_) = why("[E] 3: getPluginCreator could not find plugin: grid_sampler version: 1")
    assert (found.cause.name, found.says) == ("missing-plugin", "The plugin is grid_sampler.")


@pytest.mark.parametrize(
    ("log", "release"),
    [
        ("[TensorRT v8205]", "8.2.5"),
        ("[I] TensorRT version: 10.10.0", "10.10.0"),
        ("[TensorRT v5105]", None),
        ("", None),
    ],
)
def test_the_release_of_a_log(log: str, release: str | None) -> None:
    found = release_of(log)
    assert (str(found) if found else None) == release


NORM = """(float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
    [act] a = Relu (x)
    [norm] y = InstanceNormalization (a, s, b)
}"""


@pytest.mark.parametrize(
    "log",
    [
        'While parsing node number 1 [InstanceNormalization -> "y"]:\n'
        "InstanceNormalization plugin was not found in the plugin registry!",
        "While parsing node number 1 [InstanceNormalization]:\n"
        "InstanceNormalization plugin was not found in the plugin registry!",
        "Could not find any implementation for node {ForeignNode[act...norm]}.\nInvalid Node - norm",
    ],
)
def test_the_node_of_the_model_and_the_pass_that_rewrites_it(log: str, tmp_path: Path) -> None:
    onnx.save(model(NORM), tmp_path / "m.onnx")
    (found, *_) = why(log)
    named = in_model(found, log, tmp_path / "m.onnx", Target.parse("8.4"))
    assert (named.node, named.operator, named.fixed_by) == ("norm", "InstanceNormalization", "instance-norm")


def test_a_log_of_another_model_names_no_node_of_this_one(tmp_path: Path) -> None:
    onnx.save(model(NORM), tmp_path / "m.onnx")
    log = 'While parsing node number 1 [Pad -> "z"]:\nAssertion failed: mode == "constant" && value == 0'
    (found, *_) = why(log)
    assert in_model(found, log, tmp_path / "m.onnx", Target.parse("8.4")) == replace(found, missing=True)


def test_why_prints_cause_node_pass_and_command(tmp_path: Path, capsys: Captured) -> None:
    onnx.save(model(NORM), tmp_path / "a model.onnx")
    log = tmp_path / "log.txt"
    log.write_text(
        "&&&& RUNNING TensorRT.trtexec [TensorRT v8401] # trtexec\n"
        'While parsing node number 1 [InstanceNormalization -> "y"]:\n'
        "InstanceNormalization plugin was not found in the plugin registry!\n"
    )
    assert main(["why", str(log), "--model", str(tmp_path / "a model.onnx")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("plugins-not-initialised: ")
    assert re.search(r"^  node +InstanceNormalization norm$", printed, re.MULTILINE)
    assert re.search(r"^  fixed by +instance-norm$", printed, re.MULTILINE)
    assert re.search(
        r"^  command +surgeon rewrite '.*a model\.onnx' OUT\.onnx --target 8\.4\.1$", printed, re.MULTILINE
    )


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Callable[..., str]:
    """What `surgeon why` with some arguments prints of a log on standard input."""

    def run(log: str, *words: str) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(log))
        assert main(["why", *words]) == 0
        return capsys.readouterr().out

    return run


def test_why_reads_standard_input(said: Callable[..., str]) -> None:
    printed = said("TopK: K exceeds the maximum value allowed (3840)\n", "--target", "10.9")
    assert printed.startswith("topk-limit: ") and "surgeon check MODEL.onnx --target 10.9" in printed
    assert "VERSION" not in printed


def test_why_says_nothing_of_a_target_that_it_does_not_know(said: Callable[..., str], tmp_path: Path) -> None:
    onnx.save(model(NORM), tmp_path / "m.onnx")
    log = "InstanceNormalization plugin was not found in the plugin registry!\nInvalid Node - norm\n"
    printed = " ".join(said(log, "-", "--model", str(tmp_path / "m.onnx")).split())
    assert "--target VERSION" in printed and "replace VERSION" in printed
    assert "InstanceNormalization norm" in printed and "fixed by" not in printed


def test_a_message_of_one_release_names_the_target(said: Callable[..., str]) -> None:
    assert "surgeon rewrite MODEL.onnx OUT.onnx --target 11 --fp16" in said("Unknown option: --fp16\n")


def test_why_says_that_the_model_lacks_the_node(said: Callable[..., str], tmp_path: Path) -> None:
    onnx.save(model(NORM), tmp_path / "m.onnx")
    log = "[TensorRT v8601]\nCould not find any implementation for node /head/Conv_7.\n"
    printed = said(log, "-", "--model", str(tmp_path / "m.onnx"))
    assert "/head/Conv_7; the model has no node of this name" in printed and "no pass" not in printed


def test_why_says_that_it_does_not_know(tmp_path: Path, capsys: Captured) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"\xff\xfe something else\n")
    assert main(["why", str(log)]) == 1
    assert capsys.readouterr().out.startswith("unknown: ")
    assert main(["why", str(tmp_path / "none.txt")]) == 2


def test_why_lists_every_cause(capsys: Captured) -> None:
    assert main(["why", "--causes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [cause.name for cause in CAUSES]


def test_why_does_not_wait_for_a_keyboard(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["why"]) == 2
    assert "pipe it in" in capsys.readouterr().err
