"""Metrics against scikit-learn's and against numbers calculated by hand."""

import importlib
import math
from typing import Any

import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.check.metrics import interval, metric_of

RANDOM = np.random.default_rng(3)
SCORES = RANDOM.standard_normal((200, 7))
CLASSES = RANDOM.integers(0, 7, 200)
NUMBERS = RANDOM.standard_normal((200, 5))
OTHERS = NUMBERS + RANDOM.standard_normal((200, 5))


@pytest.fixture
def sklearn() -> Any:
    """scikit-learn's metrics, which are slow to import."""
    return importlib.import_module("sklearn.metrics")


def value(name: str, output: Any, target: Any) -> float:
    metric = metric_of(name)
    # In two batches, as a build computes it.
    halves = [(output[:60], target[:60]), (output[60:], target[60:])]
    rows = [metric.score([(np.asarray(o), np.asarray(t))], "f") for o, t in halves if len(o)]
    return metric.value(np.concatenate(rows))


@pytest.mark.parametrize("k", [1, 3, 6])
def test_topk_is_that_of_sklearn(sklearn: Any, k: int) -> None:
    expected = sklearn.top_k_accuracy_score(CLASSES, SCORES, k=k, labels=range(7))
    assert value(f"top{k}", SCORES, CLASSES) == pytest.approx(expected, abs=0)


def test_top1_of_labels_counts_equal_ones() -> None:
    assert value("top1", np.array([1, 2, 3, 4]), np.array([1, 2, 0, 4])) == 0.75


def test_sequences_without_tokens_have_no_losses() -> None:
    pair = np.zeros((2, 0, 3)), np.zeros((2, 0), int)
    assert metric_of("perplexity").score([pair], "f").tolist() == [[0, 0], [0, 0]]


def test_topk_of_equal_scores_is_not_flattered() -> None:
    """A model that gives every class the same score is right where the first class is."""
    assert value("top1", np.zeros((4, 3)), np.array([0, 1, 2, 0])) == 0.5


def test_errors_are_those_of_sklearn(sklearn: Any) -> None:
    rmse = sklearn.root_mean_squared_error(NUMBERS.ravel(), OTHERS.ravel())
    mae = sklearn.mean_absolute_error(NUMBERS, OTHERS)
    assert value("rmse", NUMBERS, OTHERS) == pytest.approx(rmse, rel=1e-12)
    assert value("mae", NUMBERS, OTHERS) == pytest.approx(mae, rel=1e-12)


def test_perplexity_is_the_exponential_of_sklearns_log_loss(sklearn: Any) -> None:
    probabilities = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)
    expected = math.exp(sklearn.log_loss(CLASSES, probabilities, labels=range(7)))
    assert value("perplexity", SCORES, CLASSES) == pytest.approx(expected, rel=1e-12)
    sentences, tokens = SCORES.reshape(40, 5, 7), CLASSES.reshape(40, 5)
    assert value("perplexity", sentences, tokens) == pytest.approx(expected, rel=1e-12)


def test_perplexity_of_even_scores_is_the_number_of_classes() -> None:
    assert value("perplexity", np.zeros((3, 2, 8)), np.zeros((3, 2), int)) == pytest.approx(8)


def test_cosine_is_that_of_sklearn(sklearn: Any) -> None:
    expected = np.diag(sklearn.pairwise.cosine_similarity(NUMBERS, OTHERS)).mean()
    assert value("cosine", NUMBERS, OTHERS) == pytest.approx(expected, rel=1e-12)


def test_auc_is_that_of_sklearn_also_with_equal_scores(sklearn: Any) -> None:
    labels = CLASSES > 3
    scores = np.round(NUMBERS[:, 0], 1)
    expected = sklearn.roc_auc_score(labels, scores)
    assert value("auc", scores, labels.astype(int)) == pytest.approx(expected, rel=1e-12)
    pairs = np.stack([-scores, scores], axis=1)
    assert value("auc", pairs, labels.astype(int)) == pytest.approx(expected, rel=1e-12)


def test_auc_of_one_class_is_not_a_number() -> None:
    assert math.isnan(value("auc", np.arange(4.0), np.ones(4, int)))


@pytest.mark.parametrize(
    ("name", "output", "target", "found"),
    [
        ("top1", np.zeros((2, 3)), np.array([0, 3]), "labels from 0 to 3 for 3 classes"),
        ("top1", np.zeros((2, 3)), np.array([0, -1]), "labels from -1 to 0 for 3 classes"),
        ("top1", np.zeros((2, 3)), np.array([0.0, 1.0]), "labels float64[2] in place of integers"),
        ("top1", np.zeros((2, 3)), np.array([[0], [1]]), "labels int64[2, 1] in place of"),
        ("top1", np.array([0, 1]), np.array([0.0, 1.0]), "labels float64[2] for int64[2]"),
        ("top1", np.array([0, 1]), np.array([[0], [1]]), "labels int64[2, 1] for int64[2]"),
        ("top1", np.zeros(2), np.array([0, 1]), "in place of [samples, classes]"),
        ("top2", np.array([0, 1]), np.array([0, 1]), "in place of [samples, classes]"),
        ("top1", np.zeros((2, 3), int), np.zeros((2, 3), int), "integers of shape [2]"),
        ("perplexity", np.zeros(2), np.array([0, 1]), "in place of [samples, ..., classes]"),
        ("top3", np.zeros((2, 3)), np.array([0, 1]), "k = 3 of 3 classes"),
        ("top5", np.zeros((2, 3, 4)), np.array([0, 1]), "[samples, classes]"),
        ("top1", np.array([[np.nan, 1]]), np.array([0]), "NaN in the result of 1 of 1 samples"),
        ("rmse", np.zeros((2, 3)), np.zeros(2), "labels float64[2] for a result float64[2, 3]"),
        ("mae", np.array([[np.nan]]), np.zeros((1, 1)), "NaN in the result"),
        ("mae", np.zeros((2, 1)), np.array([[0], [np.nan]]), "NaN in the labels of 1 of 2"),
        ("perplexity", np.zeros((2, 3)), np.array([0, 3]), "labels from 0 to 3"),
        ("cosine", np.zeros((2, 3)), np.ones((2, 3)), "length 0"),
        ("auc", np.zeros((2, 3)), np.array([0, 1]), "one score for each sample"),
        ("auc", np.zeros(2), np.array([0, 2]), "labels from 0 to 2 for 2 classes"),
        ("rmse", np.zeros(2, complex), np.zeros(2), "complex"),
    ],
)
def test_what_has_no_metric_is_refused(name: str, output: Any, target: Any, found: str) -> None:
    with pytest.raises(CaptureError) as refused:
        metric_of(name).score([(output, target)], "f for native")
    (finding,) = refused.value.findings
    assert (finding.code, finding.where) == ("AOTC-E849", "f for native")
    assert f"{name}: " in finding.found and found in finding.found


def test_wilson_intervals_are_those_of_the_literature() -> None:
    """Newcombe 1998, table I: 81 of 263 has 0.2553 to 0.3662, 0 of 20 has 0 to 0.1611."""
    metric = metric_of("top1")
    for hits, count, ends in ((81, 263, (0.2553, 0.3662)), (0, 20, (0, 0.1611))):
        rows = np.arange(count)[:, None] < hits
        assert interval(metric, rows.astype(float)) == pytest.approx(ends, abs=5e-5)


def test_bootstrap_intervals_are_the_same_each_time_and_near_the_normal_ones() -> None:
    rows = RANDOM.standard_normal((400, 1))
    low, high = interval(metric_of("mine:score"), rows)
    assert (low, high) == interval(metric_of("mine:score"), rows)
    half = 1.96 * rows.std() / math.sqrt(400)
    assert (low, high) == pytest.approx((rows.mean() - half, rows.mean() + half), abs=0.15 * half)


@pytest.mark.parametrize(("count", "draws"), [(50, 1000), (10_001, 200)])
def test_many_samples_are_drawn_fewer_times(count: int, draws: int) -> None:
    rows, generator = np.random.default_rng(1).random((count, 1)), np.random.default_rng(0)
    means = [rows[generator.integers(0, count, count)].mean() for _ in range(draws)]
    assert interval(metric_of("cosine"), rows) == pytest.approx(np.percentile(means, [2.5, 97.5]))


def test_an_interval_holds_the_value() -> None:
    metric = metric_of("auc")
    for seed in range(20):
        random = np.random.default_rng(seed)
        labels = np.array([0, 1, *random.integers(0, 2, 3)])
        rows = metric.score([(random.standard_normal(5), labels)], "f")
        low, high = interval(metric, rows)
        assert low <= metric.value(rows) <= high
