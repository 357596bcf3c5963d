"""Options of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import batches_here

__all__ = ["batches_here"]  # a fixture
pytest.register_assert_rewrite("blocks")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-console", action="store_true", help="write what the samples print into their READMEs")


@pytest.fixture(autouse=True)
def _own_proofs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test meets the proofs of another one."""
    folder = tmp_path_factory.mktemp("proofs")
    monkeypatch.setenv("SURGEON_CACHE", str(folder))
    return folder
