"""Task metrics over labeled samples, with confidence intervals; in plain NumPy.

A metric makes one row of numbers for each sample, and its value of all rows: means, ratios of sums,
or ranks. So samples can be scored batch by batch, and drawn again for an interval.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from aotc.base.errors import refusal

type Array = np.ndarray[Any, Any]

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""

RESAMPLES, RESAMPLES_OF_MANY, MANY = 1000, 200, 10_000
"""Bootstrap samples, and those of data with many samples."""


class MetricError(Exception):
    """A metric cannot be computed of outputs or labels; the text is for messages."""


type ScoreRows = Callable[[Array, Array], Array]
"""Returns the rows of a batch of outputs and labels: float64 [samples, columns]."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: As bundles and trust policies write it.
        rows: Scores a batch; None for a user's function where it is not imported.
        value: Returns the metric of rows.
        method: How its confidence interval is computed.
    """

    name: str
    rows: ScoreRows | None
    value: Callable[[Array], float]
    method: Literal["wilson", "bootstrap"] = "bootstrap"

    def score(self, results: Iterable[tuple[Array, Array]], where: str) -> Array:
        """Return the rows of outputs and labels by batch.

        Raises CaptureError (AOTC-E849) for a batch that has no metric.
        """
        assert self.rows is not None, "the process that imports the function scores"
        try:
            return np.concatenate([self.rows(*each) for each in results])
        except MetricError as error:
            raise refusal("AOTC-E849", where, f"{self.name}: {error}") from error


def _mean(rows: Array) -> float:
    return float(rows[:, 0].mean())


def _ratio(rows: Array) -> float:
    return float(rows[:, 0].sum() / rows[:, 1].sum())


def _labels(labels: Array, shape: tuple[int, ...], classes: int) -> Array:
    if labels.dtype.kind not in "iu" or labels.shape != shape:
        raise MetricError(f"labels {_text(labels)} in place of integers of shape {list(shape)}")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise MetricError(f"labels from {labels.min()} to {labels.max()} for {classes} classes")
    return labels.astype(np.int64)


def _text(array: Array) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


def _same_shape(output: Array, labels: Array) -> None:
    if output.shape != labels.shape:
        raise MetricError(f"labels {_text(labels)} for a result {_text(output)}")


def _numbers(values: Array, of: str = "result") -> Array:
    if values.dtype.kind == "c":
        raise MetricError(f"complex numbers {_text(values)}")
    wide = values.astype(np.float64)
    if count := int(np.isnan(wide).reshape(len(wide), -1).any(axis=1).sum()):
        raise MetricError(f"NaN in the {of} of {count} of {len(wide)} samples")
    return wide


def _column(values: Array) -> Array:
    return np.asarray(values, np.float64)[:, None]


def _sums(values: Array) -> Array:
    """Return the sum of each sample's values, and their number."""
    values = values.reshape(len(values), -1)
    return np.stack([values.sum(axis=1), np.full(len(values), values.shape[1], float)], axis=1)


def _top(k: int) -> ScoreRows:
    def rows(output: Array, labels: Array) -> Array:
        """Return whether fewer than k classes come before the label, with ties in order."""
        if k == 1 and output.ndim == 1 and output.dtype.kind in "iu":
            if labels.dtype.kind not in "iu" or labels.shape != output.shape:
                raise MetricError(f"labels {_text(labels)} for {_text(output)}")
            return _column(output == labels)
        if output.ndim != 2:
            raise MetricError(f"a result {_text(output)} in place of [samples, classes]")
        if k >= output.shape[1]:
            raise MetricError(f"k = {k} of {output.shape[1]} classes, which is always right")
        scores = _numbers(output)
        known = _labels(labels, scores.shape[:1], scores.shape[1])[:, None]
        own = np.take_along_axis(scores, known, axis=1)
        before = (scores > own) | ((scores == own) & (np.arange(scores.shape[1]) < known))
        return _column(before.sum(axis=1) < k)

    return rows


def _errors(power: int) -> ScoreRows:
    def rows(output: Array, labels: Array) -> Array:
        _same_shape(output, labels)
        return _sums(np.abs(_numbers(output) - _numbers(labels, "labels")) ** power)

    return rows


def _token_losses(output: Array, labels: Array) -> Array:
    """Return the negative log likelihood of the labels under softmax."""
    if output.ndim < 2:
        raise MetricError(f"a result {_text(output)} in place of [samples, ..., classes]")
    scores = _numbers(output)
    known = _labels(labels, scores.shape[:-1], scores.shape[-1])[..., None]
    scores = scores - scores.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return _sums(log_sum - np.take_along_axis(scores, known, axis=-1))


def _cosines(output: Array, labels: Array) -> Array:
    _same_shape(output, labels)
    numbers = (_numbers(output), _numbers(labels, "labels"))
    one, two = (each.reshape(len(each), -1) for each in numbers)
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    if not norms.all():
        raise MetricError("a vector of length 0, which has no cosine")
    return _column((one * two).sum(axis=1) / norms)


def _scores(output: Array, labels: Array) -> Array:
    """Return the score of class 1 (of two columns their difference), and the label."""
    scores = _numbers(output)
    if scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1] - scores[:, 0]
    scores = scores.reshape(len(scores), -1)
    if scores.shape[1] != 1:
        raise MetricError(f"a result {_text(output)} in place of one score for each sample")
    return np.concatenate([scores, _labels(labels, (len(scores),), 2)[:, None]], axis=1)


def _auc(rows: Array) -> float:
    """Return the area under the ROC curve: the Mann-Whitney U statistic per number of pairs."""
    _, place, counts = np.unique(rows[:, 0], return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    ones = rows[:, 1] == 1
    count = int(ones.sum())
    if count in (0, len(rows)):
        return math.nan
    return float((ranks[ones].sum() - count * (count + 1) / 2) / (count * (len(rows) - count)))


def metric_of(name: str, function: ScoreRows | None = None) -> Metric:
    """Return a metric by the name that bundles have.

    `function` has the rows of a user's metric: a number for each sample, whose mean is the metric.
    """
    if ":" in name:
        return Metric(name, function, _mean)
    if name.startswith("top"):
        return Metric(name, _top(int(name[3:])), _mean, "wilson")
    rows, value = {
        "rmse": (_errors(2), lambda rows: math.sqrt(_ratio(rows))),
        "mae": (_errors(1), _ratio),
        "perplexity": (_token_losses, lambda rows: float(np.exp(_ratio(rows)))),
        "cosine": (_cosines, _mean),
        "auc": (_scores, _auc),
    }[name]
    return Metric(name, rows, value)


def interval(metric: Metric, rows: Array) -> tuple[float, float]:
    """Return the 95 % confidence interval of a metric.

    Proportions have Wilson's score interval (E. B. Wilson, 1927), others the percentiles of a
    bootstrap whose random numbers are the same in every build.
    """
    count, value = len(rows), metric.value(rows)
    if metric.method == "wilson":
        center = (value + Z**2 / (2 * count)) / (1 + Z**2 / count)
        spread = math.sqrt(value * (1 - value) / count + Z**2 / (4 * count**2))
        half = Z / (1 + Z**2 / count) * spread
        ends = center - half, center + half
    else:
        generator = np.random.default_rng(0)
        draws = RESAMPLES if count <= MANY else RESAMPLES_OF_MANY
        values = [metric.value(rows[generator.integers(0, count, count)]) for _ in range(draws)]
        low, high = np.nanpercentile(values, [2.5, 97.5])
        ends = float(low), float(high)
    return min(ends[0], value), max(ends[1], value)
