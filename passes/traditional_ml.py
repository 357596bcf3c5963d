"""Write the operators of ai.onnx.ml that are arithmetic with ONNX's own operators.

Why       skl2onnx puts them before a network, or after it: scaling, filling gaps, choosing columns, encoding
          classes. TensorRT has none of the domain.
Rewrites  Scaler                     ->  (x - offset) * scale
          Normalizer                 ->  x divided by the sum of |x|, the root of the sum of squares, or the largest x
          Imputer                    ->  Where(x is the number that stands for a gap, what fills it, x)
          Binarizer                  ->  x > threshold
          FeatureVectorizer          ->  Concat
          ArrayFeatureExtractor      ->  Gather
          LinearRegressor            ->  MatMul, Add and what follows them
          LinearClassifier           ->  the same, and ArgMax for the classes
          OneHotEncoder              ->  x = one of the classes
          LabelEncoder               ->  the sum of the values of the keys that x is equal to, else the default
Exact     To the bit; Normalizer, LinearRegressor and LinearClassifier to rounding. A row of zeros stays one.
Kept      Strings and maps, which no TensorRT has. PROBIT and SOFTMAX_ZERO.
Price     Scaler is two nodes, [1024,64] in ONNX Runtime on one thread: 0.05 ms next to 0.17 of its own. LabelEncoder of
          100 keys, [64,128]: 4.5 ms next to 0.02, since each x is compared with each key.
"""

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon import Builder, Decline, Value, op, require, rule

from ._ml import DOUBLE, FLOAT, INT64, ML, transformed

EARLIEST = 9  # the opset from which Where, Greater and Constant are what they are written as here
MOST_KEYS = 4096
NUMBERS = ("int64s", "floats")  # how LabelEncoder's attributes end that hold no strings


@rule(op.Scaler("x", domain=ML), strategy="decompose")
def scaler(b, x):
    offset, scale = _numbers(b, "offset"), _numbers(b, "scale")
    require(offset.size == scale.size and scale.size, "it has not as many offsets as scales")
    _require_columns(b, x, scale.size)
    kind = DOUBLE if b.dtype(x) == DOUBLE else FLOAT
    wide = b.typed(x, kind)
    return b.typed(b.Mul(b.Sub(wide, b.constant(offset, kind)), b.constant(scale, kind)), FLOAT)


@rule(op.Normalizer("x", domain=ML), strategy="decompose")
def normalizer(b, x):
    rank, norm, wide = b.rank(x), b.root.attr("norm"), b.typed(x, FLOAT)
    require(rank in (1, 2), "its input is neither a row nor rows")
    if norm == "L2":
        # as ONNX Runtime does it: where a square underflows, the quotient of roots is another
        squares = b.Mul(wide, wide)
        total = b.ReduceSum(squares, axes=[rank - 1], keepdims=1)
        divided = b.Mul(b.Sign(wide), b.Sqrt(b.Div(squares, total)))
        return b.Where(b.Equal(total, 0.0), wide, divided)
    reduce, terms = (b.ReduceSum, b.Abs(wide)) if norm == "L1" else (b.ReduceMax, wide)
    size = reduce(terms, axes=[rank - 1], keepdims=1)
    return b.Div(wide, b.Where(b.Equal(size, 0.0), 1.0, size))


@rule(op.Imputer("x", domain=ML), strategy="decompose")
def imputer(b, x):
    whole = b.dtype(x) in (INT64, TensorProto.INT32)
    _require_opset(b)
    filling = np.asarray(b.root.attr("imputed_value_int64s" if whole else "imputed_value_floats") or [])
    require(filling.size, "it says nothing to fill gaps with")
    _require_columns(b, x, filling.size)
    gap = b.root.attr("replaced_value_int64" if whole else "replaced_value_float") or 0
    there = b.IsNaN(x) if np.isnan(gap) else b.Equal(x, b.constant(gap, b.dtype(x)))
    return b.Where(there, b.constant(filling, b.dtype(x)), x)


@rule(op.Binarizer("x", domain=ML), strategy="decompose")
def binarizer(b, x):
    _require_opset(b)
    return b.Cast(b.Greater(x, float(b.root.attr("threshold"))), to=b.dtype(x))


@rule(op.FeatureVectorizer(..., domain=ML), strategy="decompose")
def feature_vectorizer(b):
    widths, given = b.root.attr("inputdimensions") or [], [v for v in b.root.inputs if v is not None]
    shapes = [b.shape(v) for v in given]
    told = all(s is not None and len(s) == 2 and s[1] == w for s, w in zip(shapes, widths, strict=False))
    require(len(given) == len(widths) and told, "an input has another number of columns than it says")
    return b.Concat(*(b.typed(v, FLOAT) for v in given), axis=1)


@rule(op.ArrayFeatureExtractor("x", "places", domain=ML), strategy="decompose")
def array_feature_extractor(b, x, places):
    rank = b.known_rank(x)
    rows = b.Unsqueeze(x, axes=[0]) if rank == 1 else x
    return b.Gather(rows, b.Reshape(places, [-1]), axis=max(rank, 2) - 1)


@rule(op.LinearRegressor("x", domain=ML), strategy="decompose")
def linear_regressor(b, x):
    targets = b.root.attr("targets")
    return transformed(b, _products(b, x, targets), b.root.attr("post_transform"), targets)


@rule(op.LinearClassifier("x", domain=ML), strategy="decompose")
def linear_classifier(b, x):
    labels = b.root.attr("classlabels_ints")
    require(labels, "its classes are strings, or it names none")
    rows = _numbers(b, "intercepts").size
    require(rows == len(labels) > 1 or (rows, len(labels)) == (1, 2), "it has another number of rows than of classes")
    scores, transform = _products(b, x, rows), b.root.attr("post_transform")
    if rows > 1:
        best = b.ArgMax(scores, axis=1, keepdims=0)
        return b.Gather(labels, best, axis=0), transformed(b, scores, transform, rows)
    require(transform in (None, "NONE", "LOGISTIC"), f"its post_transform is {transform} of a single row")
    positive = b.Sigmoid(scores) if transform == "LOGISTIC" else scores
    first, second = (b.constant([label], INT64) for label in labels)
    label = b.Where(b.Greater(b.Reshape(scores, [-1]), 0.0), second, first)
    return label, b.Concat(b.Sub(1.0, positive), positive, axis=1)


@rule(op.OneHotEncoder("x", domain=ML), strategy="decompose")
def one_hot_encoder(b, x):
    classes = b.root.attr("cats_int64s")
    require(classes, "its classes are strings")
    require(b.root.attr("zeros"), "it fails at what is none of its classes, which no node does")
    rank = b.known_rank(x)
    return b.Cast(b.Equal(b.Unsqueeze(b.typed(x, INT64), axes=[rank]), np.asarray(classes)), to=FLOAT)


@rule(op.LabelEncoder("x", domain=ML), strategy="decompose")
def label_encoder(b, x):
    keys, values, other = _table(b)
    require(len(set(keys.tolist())) == keys.size == values.size, "a key is there twice, or without a value")
    require(keys.size <= MOST_KEYS, f"it has more than {MOST_KEYS} keys")
    require(not np.isnan(keys.astype(np.float64)).any(), "one of its keys is NaN")
    rank = b.known_rank(x)
    there = b.Equal(b.Unsqueeze(x, axes=[rank]), b.constant(keys, b.dtype(x)))
    found = b.ReduceSum(b.Where(there, values, np.zeros((), values.dtype)), axes=[rank], keepdims=0)
    any_there = b.ReduceMax(b.Cast(there, to=TensorProto.INT32), axes=[rank], keepdims=0)
    return b.Where(b.Cast(any_there, to=TensorProto.BOOL), found, other)


def _table(b: Builder) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A LabelEncoder's keys, their values, and the value of all else."""
    keys, values = (_column(b, what) for what in ("keys", "values"))
    stated = b.root.attr("default_tensor")
    if stated is not None:
        return keys, values, numpy_helper.to_array(stated).reshape(())
    other = b.root.attr("default_int64" if values.dtype == np.int64 else "default_float")
    return keys, values, np.asarray(other, values.dtype)


def _column(b: Builder, what: str) -> np.ndarray:
    stated: Any = b.root.attr(f"{what}_tensor")
    if stated is not None:
        column = numpy_helper.to_array(stated).reshape(-1)
        require(column.dtype.kind in "iuf", "it encodes strings")
        return column
    for ending, kind in zip(NUMBERS, (np.int64, np.float32), strict=True):
        if b.root.attr(f"{what}_{ending}"):
            return np.asarray(b.root.attr(f"{what}_{ending}"), kind)
    raise Decline("it encodes strings")


def _products(b: Builder, x: Value, rows: int) -> Value:
    """x times each row of the coefficients, and the intercepts: [N, rows]."""
    coefficients, intercepts = _numbers(b, "coefficients"), _numbers(b, "intercepts")
    require(b.rank(x) == 2, "its input is not a matrix")
    require(coefficients.size and rows > 0 and coefficients.size % rows == 0, "its coefficients are not so many rows")
    y: Value = b.MatMul(b.typed(x, FLOAT), np.ascontiguousarray(coefficients.reshape(rows, -1).T))
    return b.Add(y, intercepts) if intercepts.size else y


def _numbers(b: Builder, name: str) -> np.ndarray:
    """A list of fp32 numbers; empty where the node has none."""
    _require_opset(b)
    return np.asarray(b.root.attr(name) or [], np.float32)


def _require_opset(b: Builder) -> None:
    require(b.opset >= EARLIEST, f"the model's opset is below {EARLIEST}")


def _require_columns(b: Builder, x: Value, count: int) -> None:
    """Decline where numbers for each column meet what is neither a row nor rows."""
    require(count == 1 or b.rank(x) in (1, 2), "its numbers are those of columns, and its input is not a matrix")
