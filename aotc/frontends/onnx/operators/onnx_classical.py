"""Operators of ai.onnx.ml on numbers: linear and support-vector models, encoders, scalers."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from aotc.capture.model_files.framework_arithmetic import convert
from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_graph_reader import ML
from aotc.frontends.onnx.onnx_operator_table import Value, operator


def floats(call: Call, x: Value) -> Any:
    """Return features as floats; whole numbers become float32, as in onnxruntime."""
    x = call.to_jax(x)
    x = x.reshape(1, -1) if x.ndim == 1 else x
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)


def labels_of(call: Call, *names: str) -> np.ndarray[Any, Any]:
    """Return the class labels of a classifier, which have to be numbers."""
    for name in names:
        stated = call.attribute(name)
        if stated and isinstance(stated[0], bytes):
            call.lacks(
                "string class labels", hint="train with numbers as labels, or export without labels"
            )
        if stated:
            return np.asarray(stated, np.int64)
    return call.refuse("no class labels")


def picked(call: Call, labels: np.ndarray[Any, Any], index: Any) -> Any:
    """Return the label of each row, by its index."""
    return jnp.take(jnp.asarray(labels, call.jax_dtype(np.int64)), index)


def transformed(call: Call, scores: Any) -> Any:
    """Scores of several classes by `post_transform`."""
    name = call.attribute("post_transform", "NONE")
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return jax.nn.sigmoid(scores)
    if name == "SOFTMAX":
        return jax.nn.softmax(scores, -1)
    if name == "SOFTMAX_ZERO":
        zero = jnp.abs(scores) <= 1e-7
        shifted = jnp.where(zero, 0, jnp.exp(scores - jnp.max(scores, -1, keepdims=True)))
        total = shifted.sum(-1, keepdims=True)
        return jnp.where(zero, 0, shifted / jnp.where(total == 0, 1, total)).astype(scores.dtype)
    if name == "PROBIT":
        return (np.sqrt(2) * special.erfinv(2 * scores - 1)).astype(scores.dtype)
    return call.refuse(f"the post_transform {name!r}")


def _linear(call: Call, x: Any, weights: np.ndarray[Any, Any]) -> Any:
    """Return the products with rows of weights, and the intercepts added if there are such."""
    result = x @ jnp.asarray(weights.T, x.dtype)
    if intercepts := call.attribute("intercepts"):
        result = result + jnp.asarray(np.asarray(intercepts, np.float32), x.dtype)
    return result


@operator("LinearRegressor", domain=ML)
def linear_regressor(call: Call, x: Value) -> Value:
    x, targets = floats(call, x), call.attribute("targets")
    weights = np.asarray(call.attribute("coefficients"), np.float32).reshape(targets, -1)
    return transformed(call, _linear(call, x, weights)).astype(jnp.float32)


@operator("LinearClassifier", domain=ML)
def linear_classifier(call: Call, x: Value) -> tuple[Value, Value]:
    x = floats(call, x)
    labels = labels_of(call, "classlabels_ints", "classlabels_strings")
    weights = np.asarray(call.attribute("coefficients"), np.float32).reshape(-1, x.shape[1])
    if len(weights) == 1 or len(weights) != len(labels):
        call.lacks(
            f"LinearClassifier with {len(weights)} rows of coefficients for {len(labels)} labels",
            expected="a row of coefficients for each label",
        )
    scores = _linear(call, x, weights)
    chosen = picked(call, labels, jnp.argmax(scores, 1))
    return chosen, transformed(call, scores).astype(jnp.float32)


@operator("Scaler", domain=ML)
def scaler(call: Call, x: Value) -> Value:
    x = floats(call, x)
    offset = np.asarray(call.attribute("offset"), np.float32)
    scale = np.asarray(call.attribute("scale"), np.float32)
    return ((x - jnp.asarray(offset, x.dtype)) * jnp.asarray(scale, x.dtype)).astype(jnp.float32)


@operator("Normalizer", domain=ML)
def normalizer(call: Call, x: Value) -> Value:
    x, norm = floats(call, x), call.attribute("norm")
    if norm == "MAX":
        size = jnp.max(x, -1, keepdims=True)
    elif norm == "L1":
        size = jnp.sum(jnp.abs(x), -1, keepdims=True)
    elif norm == "L2":
        size = jnp.sqrt(jnp.sum(jnp.square(x), -1, keepdims=True))
    else:
        call.refuse(f"the norm {norm!r}")
    return (x / jnp.where(size == 0, 1, size)).astype(jnp.float32)


@operator("Binarizer", domain=ML)
def binarizer(call: Call, x: Value) -> Value:
    x = call.to_jax(x)
    return convert(x > call.attribute("threshold"), x.dtype)


@operator("Imputer", domain=ML)
def imputer(call: Call, x: Value) -> Value:
    x = call.to_jax(x)
    if jnp.issubdtype(x.dtype, jnp.floating):
        fill, gone = call.attribute("imputed_value_floats"), call.attribute("replaced_value_float")
    else:
        fill, gone = call.attribute("imputed_value_int64s"), call.attribute("replaced_value_int64")
    if not fill:
        call.refuse("no imputed values for this type")
    missing = jnp.isnan(x) if np.isnan(gone) else x == gone
    return jnp.where(missing, jnp.asarray(fill, x.dtype), x)


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(call: Call, x: Value, index: Value) -> Value:
    x = call.to_jax(x)
    x = x.reshape(1, -1) if x.ndim == 1 else x
    return jnp.take(x, call.to_jax(index).reshape(-1), -1, mode="clip")


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(call: Call, *values: Value) -> Value:
    parts = []
    for value, size in zip(values, call.attribute("inputdimensions"), strict=True):
        part = floats(call, value)
        parts.append(part.reshape(part.shape[0], -1)[:, :size].astype(jnp.float32))
    return jnp.concatenate(parts, 1)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(call: Call, x: Value) -> Value:
    known = call.attribute("cats_int64s")
    if not known:
        call.lacks("string categories")
    if not call.attribute("zeros"):
        call.lacks("an encoder without zeros for unknown categories", hint="export with zeros = 1")
    x = call.to_jax(x)
    whole = x if jnp.issubdtype(x.dtype, jnp.integer) else jnp.trunc(x)
    return convert(whole[..., None] == jnp.asarray(known, whole.dtype), jnp.float32)


@operator("LabelEncoder", domain=ML)
def label_encoder(call: Call, x: Value) -> Value:
    kinds = {"int64s": np.int64, "floats": np.float32, "tensor": None}

    def listed(what: str) -> np.ndarray[Any, Any]:
        for kind, dtype in kinds.items():
            value = call.attribute(f"{what}_{kind}")
            if value is not None:
                return np.asarray(value).reshape(-1) if dtype is None else np.asarray(value, dtype)
        return call.lacks("string classes")

    keys, values = listed("keys"), listed("values")
    if call.version == 1 or len(keys) != len(values) or not len(keys):
        call.refuse("keys and values of different lengths")
    if values.dtype == np.float32:
        default: Any = call.attribute("default_float", -0.0)
    else:
        default = call.attribute("default_int64", -1)
    given = call.attribute("default_tensor")
    default = np.asarray(default if given is None else given.reshape(()), values.dtype)
    order = np.argsort(keys, kind="stable")
    if np.isnan(keys.astype(np.float64)).any():
        order = order[np.argsort(np.isnan(keys[order].astype(np.float64)), kind="stable")]
    x = call.to_jax(x)
    table = jnp.asarray(keys[order], x.dtype)
    index = jnp.clip(jnp.searchsorted(table, x), 0, len(keys) - 1)
    found = table[index] == x
    if jnp.issubdtype(x.dtype, jnp.floating):
        found |= jnp.isnan(table[index]) & jnp.isnan(x)
    answers = jnp.asarray(values[order], call.jax_dtype(values.dtype))
    return jnp.where(found, answers[index], jnp.asarray(default, answers.dtype))


def _kernel(call: Call, x: Any, vectors: np.ndarray[Any, Any]) -> Any:
    """Return the kernel function of each row of x and each support vector."""
    kind = call.attribute("kernel_type")
    gamma, offset, degree = (*(call.attribute("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    other = jnp.asarray(vectors, x.dtype)
    if kind == "RBF":
        return jnp.exp(-gamma * jnp.sum(jnp.square(x[:, None] - other[None]), -1))
    dot = x @ other.T
    if kind == "LINEAR":
        return dot
    if kind == "POLY":
        return (gamma * dot + offset) ** degree
    if kind == "SIGMOID":
        return jnp.tanh(gamma * dot + offset)
    return call.refuse(f"the kernel {kind!r}")


@operator("SVMRegressor", domain=ML)
def svm_regressor(call: Call, x: Value) -> Value:
    x = floats(call, x)
    count = call.attribute("n_supports", 0)
    rho = np.asarray(call.attribute("rho"), np.float32)
    weights = np.asarray(call.attribute("coefficients"), np.float32)
    if count:
        vectors = np.asarray(call.attribute("support_vectors"), np.float32).reshape(count, -1)
        scores = _kernel(call, x, vectors) @ jnp.asarray(weights, x.dtype) + rho[0]
    else:
        scores = _kernel(call, x, weights.reshape(1, -1))[:, 0] + rho[0]
    scores = scores[:, None].astype(jnp.float32)
    if call.attribute("one_class"):
        return jnp.where(scores > 0, 1.0, -1.0).astype(jnp.float32)
    return scores


@operator("SVMClassifier", domain=ML)
def svm_classifier(call: Call, x: Value) -> tuple[Value, Value]:
    """Classify one against one: each pair of classes votes for the label, as in libsvm.

    Platt's probabilities do not change the label.
    """
    x = floats(call, x)
    labels = labels_of(call, "classlabels_ints", "classlabels_strings")
    sizes = call.attribute("vectors_per_class")
    if not sizes:
        call.lacks("SVMClassifier without support vectors")
    total, classes = sum(sizes), len(sizes)
    vectors = np.asarray(call.attribute("support_vectors"), np.float32).reshape(total, -1)
    weights = np.asarray(call.attribute("coefficients"), np.float32).reshape(classes - 1, total)
    rho = np.asarray(call.attribute("rho"), np.float32)
    if classes != len(labels) or len(rho) != classes * (classes - 1) // 2:
        call.refuse("inconsistent numbers of classes, labels and rho")
    kernel = _kernel(call, x, vectors)
    ends = np.cumsum([0, *sizes])
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    scores, votes = [], [jnp.zeros(x.shape[0], jnp.int32)] * classes
    for number, (i, j) in enumerate(pairs):
        a, b = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        score = kernel[:, a] @ jnp.asarray(weights[j - 1, a], x.dtype)
        score = score + kernel[:, b] @ jnp.asarray(weights[i, b], x.dtype) + rho[number]
        scores.append(score)
        won = score > 0
        votes[i] = votes[i] + won
        votes[j] = votes[j] + ~won
    stacked = jnp.stack(scores, 1)
    chosen = picked(call, labels, jnp.argmax(jnp.stack(votes, 1), 1))
    first, second = call.attribute("prob_a"), call.attribute("prob_b")
    if first:
        shares = _coupled(stacked, first, second, pairs, classes)
        return chosen, shares.astype(jnp.float32)
    if classes == 2:
        if call.attribute("post_transform", "NONE") != "NONE" or min(*weights.flat) >= 0:
            call.lacks("SVMClassifier of two classes with a post_transform, or of positive weights")
        return chosen, jnp.concatenate([stacked, -stacked], 1).astype(jnp.float32)
    return chosen, transformed(call, stacked).astype(jnp.float32)


def _coupled(
    scores: Any, a: Sequence[float], b: Sequence[float], pairs: Sequence[tuple[int, int]], n: int
) -> Any:
    """Return classes' probabilities from pairs': Wu, Lin and Weng (2004), method 2, as libsvm."""
    rows: list[list[Any]] = [[jnp.zeros(scores.shape[0], scores.dtype)] * n for _ in range(n)]
    for number, (i, j) in enumerate(pairs):
        p = jnp.clip(jax.nn.sigmoid(-(scores[:, number] * a[number] + b[number])), 1e-7, 1 - 1e-7)
        rows[i][j], rows[j][i] = p, 1 - p
    r = jnp.stack([jnp.stack(row, -1) for row in rows], -2)
    q = -jnp.swapaxes(r, 1, 2) * r
    q = q * (1 - jnp.eye(n, dtype=r.dtype)) + jnp.eye(n, dtype=r.dtype) * jnp.square(r).sum(
        1, keepdims=True
    )

    def sweep(_: Any, state: Any) -> Any:
        p, done = state
        qp = jnp.einsum("bij,bj->bi", q, p)
        pqp = (p * qp).sum(1)
        done = done | (jnp.abs(qp - pqp[:, None]).max(1) < 0.005 / n)
        new, qp2, pqp2 = p, qp, pqp
        for t in range(n):
            diagonal = q[:, t, t]
            step = (-qp2[:, t] + pqp2) / diagonal
            new = new.at[:, t].add(step)
            pqp2 = (pqp2 + step * (step * diagonal + 2 * qp2[:, t])) / jnp.square(1 + step)
            qp2 = (qp2 + step[:, None] * q[:, t]) / (1 + step)[:, None]
            new = new / (1 + step)[:, None]
        return jnp.where(done[:, None], p, new), done

    start = jnp.full((scores.shape[0], n), 1 / n, scores.dtype)
    done = jnp.zeros(scores.shape[0], jnp.bool_)
    shares, _ = jax.lax.fori_loop(0, max(100, n), sweep, (start, done))
    return shares
