"""Walk the trees of ai.onnx.ml through all levels at once.

Why       skl2onnx, hummingbird and the converters of XGBoost, LightGBM and CatBoost write forests as one node, often
          with networks before or after it. TensorRT has none of the domain.
Rewrites  TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier  ->  a step for each level, by which all trees
          go on to a child, [N, trees]: a Gather for the feature, GatherElements for its number, a comparison, a Where
          between the children. A leaf is its own child. Then a Gather of the weights and a ReduceSum over the trees.
Exact     Which leaf it is to the bit, a NaN included; the sum of the leaves to rounding. So a class may be another one
          only where two scores are equal to rounding.
Kept      Trees whose nodes compare with a set. Classes that are strings. PROBIT and SOFTMAX_ZERO.
Price     7 nodes a level. 100 trees of 6 levels, 64 rows of 20 columns: 40 nodes, and 1.4 ms in ONNX Runtime on
          one thread next to 0.05 of its own node; of one row 0.04 next to 0.006.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from onnx import numpy_helper

from surgeon import Builder, Value, op, require, require_some, rule

from ._ml import DOUBLE, FLOAT, INT64, ML, transformed

EARLIEST = 11  # the opset from which there is GatherElements
LESS_OR_EQUAL = 12  # the opset from which there is LessOrEqual
MOST_LEVELS = 64
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")  # as TreeEnsemble counts them
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees, leaves among them; a leaf is its own child.

    weights   [nodes, targets]: what a leaf adds to each target
    tracks    whether a NaN goes to the child `yes`; true of leaves
    modes     how a node compares; LEAF for a leaf
    """

    roots: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    tracks: np.ndarray
    weights: np.ndarray
    modes: np.ndarray

    @property
    def kinds(self) -> list[str]:
        """The modes that there are."""
        found = sorted(set(self.modes.tolist()) - {"LEAF"})
        require(found, "none of its trees has a split")
        other = ", ".join(mode for mode in found if mode not in MODES)
        require(not other, f"its nodes compare by {other}")
        return found

    @property
    def is_tracking(self) -> bool:
        """Whether some split sends a NaN to the child `yes`."""
        return bool(self.tracks[self.yes != np.arange(len(self.yes))].any())

    @property
    def levels(self) -> int:
        """The length of the longest way from a root to a leaf."""
        at, count = np.unique(self.roots), 0
        while (self.yes[at] != at).any():
            at, count = np.unique(np.concatenate([self.yes[at], self.no[at]])), count + 1
            require(count <= MOST_LEVELS, f"a tree has more than {MOST_LEVELS} levels")
        return count


@rule(op.TreeEnsemble("x", domain=ML), strategy="decompose")
def tree_ensemble(b, x):
    attr = b.root.attr
    forest = _newer(b)
    scores = _scores(b, x, forest, AGGREGATES[attr("aggregate_function")])
    return transformed(b, scores, TRANSFORMS[attr("post_transform")], forest.weights.shape[1])


@rule(op.TreeEnsembleRegressor("x", domain=ML), strategy="decompose")
def regressor(b, x):
    targets = b.root.attr("n_targets") or 1
    scores = _scores(b, x, _older(b, "target", targets), b.root.attr("aggregate_function"))
    return b.typed(transformed(b, _with_base(b, scores), b.root.attr("post_transform"), targets), FLOAT)


@rule(op.TreeEnsembleClassifier("x", domain=ML), strategy="decompose")
def classifier(b, x):
    labels, transform = b.root.attr("classlabels_int64s"), b.root.attr("post_transform")
    require(labels, "its classes are strings")
    require(len(labels) > 1, "it has a single class")
    if len(labels) == 2 and set(b.root.attr("class_ids")) == {0}:
        return _of_two(b, x, _older(b, "class", 1), transform)
    forest = _older(b, "class", len(labels))
    require(_covers(b, len(labels)), "a leaf leaves out a class, which ONNX Runtime does not take for 0")
    read = b.root.outputs[0] is not None and b.root.outputs[0].is_read
    require(len(labels) > 2 or not read, "ONNX Runtime calls the one of two classes that are both weighed 0 or 1")
    require(len(labels) > 2 or not _numbers(b, "base_values").size, "ONNX Runtime adds base_values of two classes up")
    scores = _with_base(b, _scores(b, x, forest, "SUM"))
    best = b.Gather(labels, b.ArgMax(scores, axis=1, keepdims=0), axis=0) if read else None
    return best, b.typed(transformed(b, scores, transform, len(labels)), FLOAT)


def _of_two(b: Builder, x: Value, forest: Forest, transform: str) -> tuple[Value, Value]:
    """The class and the scores of two classes, of which the leaves weigh the first alone. ONNX Runtime takes what they
    add up to for the score of the second."""
    require(transform in ("NONE", "LOGISTIC"), f"its post_transform is {transform} of a single score")
    require(_numbers(b, "base_values").size < 2, "it has base_values for two classes, and weights for one")
    first, second = (b.constant([label], INT64) for label in b.root.attr("classlabels_int64s"))
    score, positive = _with_base(b, _scores(b, x, forest, "SUM")), bool((forest.weights >= 0).all())
    chosen = b.Where(b.Greater(b.Reshape(score, [-1]), 0.5 if positive else 0.0), second, first)
    if transform == "LOGISTIC":
        pair = b.Sigmoid(b.Concat(b.Neg(score), score, axis=1))
    else:
        pair = b.Concat(b.Sub(1.0, score) if positive else b.Neg(score), score, axis=1)
    return chosen, b.typed(pair, FLOAT)


def _covers(b: Builder, count: int) -> bool:
    """Whether each class has a tree of which every leaf weighs it."""
    attr = b.root.attr
    modes = zip(attr("nodes_treeids"), attr("nodes_modes"), strict=True)
    leaves = Counter(tree for tree, mode in modes if mode == "LEAF")
    rows = set(zip(attr("class_treeids"), attr("class_nodeids"), attr("class_ids"), strict=True))
    weighed = Counter((tree, target) for tree, _, target in rows)
    return {target for (tree, target), n in weighed.items() if n == leaves[tree]} == set(range(count))


# ---- the walk --------------------------------------------------------------------------------------------------------


def _scores(b: Builder, x: Value, forest: Forest, aggregate: str) -> Value:
    """[N, targets]: what the leaves add up to."""
    require(b.opset >= EARLIEST, f"the model's opset is below {EARLIEST}, and has no GatherElements")
    require(b.rank(x) == 2, "its input is not a matrix")
    one = forest.weights.shape[1] == 1
    require(one or aggregate in ("SUM", "AVERAGE"), f"its aggregate is {aggregate} of several targets")
    kind = b.dtype(x)
    require(kind in (FLOAT, DOUBLE), "its input holds no numbers of fp32 or float64")
    weights = b.Gather(b.constant(forest.weights, kind), _leaves(b, x, forest, kind), axis=0)
    if aggregate in ("MIN", "MAX"):
        return (b.ReduceMin if aggregate == "MIN" else b.ReduceMax)(weights, axes=[1], keepdims=0)
    total: Value = b.ReduceSum(weights, axes=[1], keepdims=0)
    return b.Div(total, float(len(forest.roots))) if aggregate == "AVERAGE" else total


def _leaves(b: Builder, x: Value, forest: Forest, kind: int) -> Value:
    """[N, trees]: the leaf at which each tree ends."""
    levels, roots = forest.levels, forest.roots
    number = b.Gather(x, forest.features[roots], axis=1)
    holds = _holds(b, forest, roots, number, b.constant(forest.splits[roots], kind))
    at = b.Where(_or_tracked(b, forest, holds, number, forest.tracks[roots]), forest.yes[roots], forest.no[roots])
    tables = [b.constant(t) for t in (forest.features, forest.yes, forest.no, forest.tracks)] if levels > 1 else []
    splits = b.constant(forest.splits, kind) if levels > 1 else None
    for _ in range(levels - 1):
        feature, yes, no = (b.Gather(table, at, axis=0) for table in tables[:3])
        number = b.GatherElements(x, feature, axis=1)
        holds = _holds(b, forest, at, number, b.Gather(splits, at, axis=0))
        some = forest.is_tracking and not forest.tracks.all()
        holds = _or_tracked(b, forest, holds, number, b.Gather(tables[3], at, axis=0) if some else None)
        at = b.Where(holds, yes, no)
    return at


def _or_tracked(b: Builder, forest: Forest, holds: Value, number: Value, tracks: Any) -> Value:
    """Whether a tree goes on to `yes`: also with a NaN, where the node has it so."""
    if not forest.is_tracking:
        return holds
    absent: Value = b.IsNaN(number)
    return b.Or(holds, absent if forest.tracks.all() else b.And(absent, tracks))


def _holds(b: Builder, forest: Forest, at: Any, number: Value, split: Value) -> Value:
    """Whether a number is to its split as the mode of the node says. `at` are the nodes: an array, or computed."""
    kinds = forest.kinds
    if len(kinds) == 1:
        return _compared(b, kinds[0], number, split)
    found: list[Value] = []
    for mode in kinds:
        of_it = forest.modes == mode
        there = of_it[at] if isinstance(at, np.ndarray) else b.Gather(of_it, at, axis=0)
        found.append(b.And(there, _compared(b, mode, number, split)))
    return reduce(b.Or, found)


def _compared(b: Builder, mode: str, number: Value, split: Value) -> Value:
    one, other = (split, number) if mode in ("BRANCH_GTE", "BRANCH_GT") else (number, split)
    if mode in ("BRANCH_LT", "BRANCH_GT"):
        return b.Less(one, other)
    if mode in ("BRANCH_LEQ", "BRANCH_GTE"):
        return b.LessOrEqual(one, other) if b.opset >= LESS_OR_EQUAL else b.Or(b.Less(one, other), b.Equal(one, other))
    equal: Value = b.Equal(one, other)
    return b.Not(equal) if mode == "BRANCH_NEQ" else equal


def _with_base(b: Builder, scores: Value) -> Value:
    base = _numbers(b, "base_values")
    return b.Add(scores, b.constant(base, b.dtype(scores))) if base.size else scores


# ---- what the node says ----------------------------------------------------------------------------------------------


def _newer(b: Builder) -> Forest:
    """The forest of a TreeEnsemble, which counts inner nodes and leaves apart."""
    attr = b.root.attr
    features, inner = np.asarray(attr("nodes_featureids")), len(attr("nodes_featureids"))
    weights = numpy_helper.to_array(attr("leaf_weights")).reshape(-1)
    leaves = np.arange(inner, inner + len(weights))
    yes, no = (
        np.concatenate([np.where(attr(f"nodes_{way}leafs"), inner, 0) + attr(f"nodes_{way}nodeids"), leaves])
        for way in ("true", "false")
    )
    codes = numpy_helper.to_array(attr("nodes_modes")).reshape(-1).tolist()
    modes = [MODES[code] if code < len(MODES) else "BRANCH_MEMBER" for code in codes]
    table = np.zeros((inner + len(weights), attr("n_targets") or 1))
    table[leaves, attr("leaf_targetids")] = weights
    # of a leaf, whose children are one, a NaN may go to `yes`
    stated = np.asarray(b.root.attr("nodes_missing_value_tracks_true") or [0] * inner, bool)
    return Forest(
        np.asarray(attr("tree_roots")),
        _longer(features, len(yes)),
        _longer(numpy_helper.to_array(attr("nodes_splits")).reshape(-1), len(yes)),
        yes,
        no,
        np.concatenate([stated, np.ones(len(yes) - inner, bool)]),
        table,
        np.asarray(modes + ["LEAF"] * len(weights)),
    )


def _older(b: Builder, what: str, targets: int) -> Forest:
    """The forest of a TreeEnsembleRegressor or TreeEnsembleClassifier, whose nodes are named by tree and number."""
    attr = b.root.attr
    names = list(zip(attr("nodes_treeids") or [], attr("nodes_nodeids") or [], strict=True))
    place = {name: k for k, name in enumerate(names)}
    require(len(place) == len(names), "two of its nodes have one name")
    leaf = np.asarray([mode == "LEAF" for mode in attr("nodes_modes")])
    own = np.arange(len(names))
    yes, no = (_children(place, names, leaf, attr(f"nodes_{way}nodeids")) for way in ("true", "false"))
    table = np.zeros((len(names), targets))
    of = (attr(f"{what}_{part}") for part in ("treeids", "nodeids", "ids"))
    for tree, node, target, weight in zip(*of, _numbers(b, f"{what}_weights"), strict=True):
        table[require_some(place.get((tree, node)), "it weighs a node that it does not have"), target] += weight
    table[~leaf] = 0
    inside = set(yes[~leaf].tolist()) | set(no[~leaf].tolist())
    roots = [k for k in own.tolist() if k not in inside]
    trees = Counter(names[k][0] for k in roots)
    require(set(trees.values()) == {1} and len(trees) == len({t for t, _ in names}), "a tree has not one root")
    return Forest(
        np.asarray(roots),
        np.where(leaf, 0, attr("nodes_featureids")),
        np.where(leaf, 0, _numbers(b, "nodes_values")),
        yes,
        no,
        np.asarray(attr("nodes_missing_value_tracks_true") or [0] * len(names), bool) | leaf,
        table,
        np.asarray(attr("nodes_modes")),
    )


def _children(
    place: dict[tuple[int, int], int], names: Sequence[tuple[int, int]], leaf: np.ndarray, named: Sequence[int]
) -> np.ndarray:
    """The child of each node; a leaf's is itself."""
    found = [
        k if leaf[k] else place.get((names[k][0], node), -1) for k, node in zip(range(len(names)), named, strict=True)
    ]
    require(min(found, default=0) >= 0, "a node has a child that is not there")
    return np.asarray(found)


def _numbers(b: Builder, name: str) -> np.ndarray:
    """A list of numbers, of fp32 or, as a tensor, of any type; empty where the node has none."""
    stated = b.root.attr(f"{name}_as_tensor")
    if stated is not None:
        return numpy_helper.to_array(stated).reshape(-1)
    return np.asarray(b.root.attr(name) or [], np.float32)


def _longer(array: np.ndarray, length: int) -> np.ndarray:
    """With zeros, for the leaves, after it."""
    return np.concatenate([array, np.zeros(length - len(array), array.dtype)])
