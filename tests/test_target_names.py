"""Names for a TensorRT besides its version: what they stand for, what is refused, and what was meant."""

from __future__ import annotations

import pytest

from surgeon.app.cli import main
from surgeon.errors import UsageError
from surgeon.targets import names
from surgeon.targets.releases import FIRST
from surgeon.targets.target import Target


@pytest.mark.parametrize(
    ("name", "version", "row"),
    [
        ("jetpack-4.3", "6.0.1", (6, 0)),
        ("jetpack-5.1.2", "8.5.2", (8, 5)),
        ("JetPack 6.0", "8.6.2", (8, 6)),
        ("jetpack-7.1", "10.13.3", (10, 13)),
        ("jetson-nano", "8.2.1", (8, 2)),
        ("jetson-orin", "10.3", (10, 3)),
        ("jetson-orin+dla", "10.3+dla", (10, 3)),
        ("24.05-py3", "10.0.1", (10, 0)),
        ("nvcr.io/nvidia/tensorrt:23.04-py3", "8.6.1", (8, 6)),
        ("nvcr.io/nvidia/tensorflow:21.02-tf2-py3", "7.2.2", (7, 2, 2)),
        ("nvcr.io/nvidia/tritonserver:24.04-trtllm-python-py3", "9.3.0", (9, 3)),
        ("TensorRT v8601", "8.6.1", (8, 6)),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v100001] # trtexec --onnx=m.onnx", "10.0.1", (10, 0)),
        ("[06/07/2022-19:05:53] [I] TensorRT version: 8.2.5", "8.2.5", (8, 2)),
        ("TensorRT-8.4.1.5", "8.4.1.5", (8, 4)),
    ],
)
def test_a_name_stands_for_a_version(name: str, version: str, row: tuple[int, ...]) -> None:
    target = Target.parse(name)
    assert (str(target), target.version, target.dla) == (version, row, name.endswith("+dla"))
    assert version.removesuffix("+dla") in target.note


def test_a_month_between_two_with_the_same_row_has_that_row() -> None:
    """Not the version of either: that is not known."""
    assert Target.parse("21.09-py3").version == (8, 0)
    assert Target.parse("23.10-py3").version == (8, 6)
    with pytest.raises(UsageError, match=r"24\.05 has 10\.0\.1, 24\.12 has 10\.7\.0"):
        Target.parse("24.08-py3")
    with pytest.raises(UsageError, match=r"which knows 20\.02 to 26\.02"):
        Target.parse("19.10-py3")


@pytest.mark.parametrize("name", ["jetpack-5.9", "jetpack-4.2.2", "jetpack-", "24.05-vllm-python-py3", "jetson", "v8"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Target.parse(name)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("RTX", "rtx"),
        ("8.6+DLA", "8.6+dla"),
        ("trt8.4", "8.4"),
        ("8,4", "8.4"),
        ("TensorRT8.6", "8.6"),
        ("orin", "jetson-orin"),
        ("Jetson-Nano", "jetson-nano"),
        ("24.05", "24.05-py3"),
        ("instaled", "installed"),
    ],
)
def test_what_was_meant_is_said(wrong: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        Target.parse(wrong)
    assert f"Did you mean '{meant}'?" in str(refused.value)
    assert Target.parse(meant) if meant != "installed" else True


def test_nothing_is_suggested_for_what_is_far_from_every_name() -> None:
    with pytest.raises(UsageError) as refused:
        Target.parse("openvino")
    assert "Did you mean" not in str(refused.value)


def test_every_alias_is_a_target_with_a_source() -> None:
    for alias in names.aliases():
        assert alias.source, alias
        assert str(Target.parse(alias.name)) == alias.version


def test_containers_never_go_back() -> None:
    """What the gaps between the rows are filled by."""
    for table in (names.tables().containers, names.tables().trtllm_containers):
        assert list(table) == sorted(table)
        versions = [tuple(map(int, shipped.version.split("."))) for shipped in table.values()]
        assert versions == sorted(versions) and versions[0] >= FIRST


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("no TensorRT to be seen", ""),
        ("[TensorRT v7103]", "7.1.3"),
        ("[TensorRT v101303]", "10.13.3"),
        ("[I] TensorRT version: 10.10.0\n&&&& FAILED TensorRT.trtexec [TensorRT v101000]", "10.10.0"),
        ("[TensorRT] ERROR: 8.2 is in a path", ""),
    ],
)
def test_the_version_in_a_log(text: str, version: str) -> None:
    assert names.printed_version(text) == version


def test_targets_lists_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets"]) == 0
    printed = capsys.readouterr().out
    for name in ("8.4 ", "rtx ", "jetpack-5.1.2 ", "jetson-orin ", "24.05-py3 ", "24.05-trtllm-python-py3 "):
        assert f"\ntarget  {name}" in printed
    assert printed.splitlines()[-1].startswith("without --target: ")


def test_installed_fails_where_nothing_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("surgeon.targets.target.installed_version", lambda module: "")
    assert main(["check", "none.onnx", "--target", "installed"]) == 2
    assert "no TensorRT can be imported here" in capsys.readouterr().err
