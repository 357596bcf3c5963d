"""Compute a node of half precision in fp32."""

from __future__ import annotations

from surgeon import Builder, Value, require_some


def in_fp32(b: Builder) -> Value:
    """The root of its inputs in fp32, with its result in the type of the first: its sums are not rounded."""
    wide = b.again([None if v is None else b.wide(v) for v in b.root.inputs])
    return b.Cast(wide, to=b.dtype(require_some(b.root.inputs[0])))
