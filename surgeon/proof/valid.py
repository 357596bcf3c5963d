"""Inputs that ONNX Runtime takes: what is drawn for a model is brought to where its operators ask it to be."""

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import ModelProto

from surgeon.ir.protos import reads
from surgeon.proof.feeds import Feeds, SizedInput, feeds_of
from surgeon.proof.integer_roles import corners_of_rois, pictures_of_rois, pooled_rois

FARTHEST_CORNER = 64.0  # of rois that have a sample for each position: an image of thousands takes minutes
IOU_THRESHOLD = 3  # the input of NonMaxSuppression that is from 0 to 1
HALF = 0.5  # stands for a threshold that is not finite


class Valid:
    """What the operators of a model ask of its inputs."""

    def __init__(self, model: ModelProto) -> None:
        self._corners = corners_of_rois(model)
        self._pictures = pictures_of_rois(model)
        self._pooled = pooled_rois(model)
        self._thresholds = _thresholds(model)

    def of(self, feeds: Feeds) -> Feeds:
        """The inputs with rois that are not far away, but for those at infinity, of images that there are; and with
        thresholds from 0 to 1."""
        rois = {n: feeds[n] for n in self._corners & feeds.keys()}
        near = {n: x.clip(-FARTHEST_CORNER, FARTHEST_CORNER) for n, x in rois.items()}
        found = {**feeds, **{n: np.where(np.isfinite(x), near[n], x) for n, x in rois.items()}}
        for pictures, index in self._pictures:
            if pictures in feeds and index in feeds:
                found[index] = feeds[index] % max(len(feeds[pictures]), 1)
        for pictures, name in self._pooled:
            if pictures in feeds and name in feeds:
                found[name] = corners = feeds[name].clip(-FARTHEST_CORNER, FARTHEST_CORNER)
                corners[..., :1] = np.floor(abs(corners[..., :1])) % max(len(feeds[pictures]), 1)
        for name in self._thresholds & feeds.keys():
            x = feeds[name]
            if x.size == 1 and x.dtype.kind == "f":
                found[name] = (np.abs(np.where(np.isfinite(x), x, HALF)) % 1).astype(x.dtype)
        return found


def valid_feeds(
    model: ModelProto, inputs: Sequence[SizedInput], seed: int = 0, below: int = 4, kinds: Sequence[str] = ()
) -> Iterator[tuple[str, Feeds]]:
    """`feeds_of`, with inputs that the model's operators take."""
    valid = Valid(model)
    for kind, feeds in feeds_of(inputs, seed, below=below, kinds=kinds):
        yield kind, valid.of(feeds)


def _thresholds(model: ModelProto) -> frozenset[str]:
    """What the threshold of a NonMaxSuppression is, or is computed of."""
    found = {
        n.input[IOU_THRESHOLD]
        for n in model.graph.node
        if n.op_type == "NonMaxSuppression" and len(n.input) > IOU_THRESHOLD
    }
    for node in reversed(model.graph.node if found else ()):
        if not found.isdisjoint(node.output):
            found.update(reads(node))
    return frozenset(found)
