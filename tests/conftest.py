"""Options of the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import helpers
import pytest
from program import batches_here

__all__ = ["batches_here"]  # a fixture
pytest.register_assert_rewrite("blocks")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-console", action="store_true", help="write what the samples print into their READMEs")


def pytest_configure(config: pytest.Config) -> None:
    helpers.is_long = config.option.markexpr.startswith("long")


@pytest.fixture(scope="session")
def _places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A name for each test of a folder. (Where pytest names them, it lists all that there are each time.)"""
    folder = tmp_path_factory.mktemp("proofs")
    return map(folder.joinpath, map(str, itertools.count()))


@pytest.fixture(autouse=True)
def _own_proofs(_places: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test meets the proofs of another one."""
    folder = next(_places)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("SURGEON_CACHE", str(folder))
    return folder
