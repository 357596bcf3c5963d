"""Options of the tests."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import helpers
import pytest
from program import batches_here

__all__ = ["batches_here"]  # a fixture
pytest.register_assert_rewrite("blocks")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
HALF_GIB = 1 << 29
# By file: of so many tests of a function one is fast, and the others are long. Each is one model or target of hundreds.
ONE_OF = {
    "test_activations": 2,
    "test_catalogue": 2,
    "test_corpus": 3,
    "test_less_known": 3,
    "test_near_misses": 2,
    "test_samples": 2,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-console", action="store_true", help="write what the samples print into their READMEs")


def pytest_configure(config: pytest.Config) -> None:
    helpers.is_long = config.option.markexpr.startswith("long")
    _keep_memory()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as long what ONE_OF leaves out, where tests are chosen by that mark."""
    if "long" not in config.option.markexpr:
        return
    counts: Counter[str] = Counter()
    for item in items:
        function, parametrized, _ = item.nodeid.partition("[")
        if parametrized and counts[function] % ONE_OF.get(item.path.stem, 1):
            item.add_marker(pytest.mark.long)
        counts[function] += 1


def _keep_memory() -> None:
    """Keep memory that is freed: each build of an engine takes the same 100 MB, and the kernel clears each page."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another library of C than glibc
        for threshold in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(threshold, HALF_GIB)


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
