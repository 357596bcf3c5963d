"""Registers the marker of the tests that run the plugins' kernels."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "gpu: runs the plugins' kernels; skipped, with the reason, without an NVIDIA GPU"
    )
