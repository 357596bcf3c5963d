"""The notebook of the samples runs from its first cell to its last, and shows what it is to show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from surgeon.trt.runtime import RTX

pytestmark = pytest.mark.long
NOTEBOOK = Path(__file__).resolve().parent.parent / "samples" / "notebook" / "surgeon.ipynb"


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    """The cells of code with what they printed, in order."""
    nbformat = pytest.importorskip("nbformat", reason="it is in the extra [test]")
    nbclient = pytest.importorskip("nbclient", reason="it is in the extra [test]")
    book = nbformat.read(NOTEBOOK, as_version=4)
    root = str(NOTEBOOK.parents[2])
    client = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
    client.execute(env={**os.environ, "PYTHONPATH": root})
    return [cell for cell in book.cells if cell.cell_type == "code"]


def shown(cell: Any) -> str:
    outputs = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    return "".join(outputs)


def test_the_result_shows_itself(cells: list[Any]) -> None:
    checked, result = cells[1], cells[2]
    assert "TensorRT 8.4 does not support 31 nodes" in shown(checked)
    assert "47 rewrites, 308 -> 188 nodes" in shown(result)
    assert "<table>" in result.outputs[0].data["text/html"]
    assert "InstanceNormalization(" in shown(cells[3]) and "ReduceMean(" in shown(cells[3])


def test_the_models_agree_and_an_engine_is_built(cells: list[Any]) -> None:
    assert "the models agree on 22 sets of inputs" in shown(cells[4])
    try:
        __import__(RTX)
    except ImportError:
        assert "not installed" in shown(cells[5])
    else:
        assert "TensorRT-RTX" in shown(cells[5]) and "MB" in shown(cells[5])
