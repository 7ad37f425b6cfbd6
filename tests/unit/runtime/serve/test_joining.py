"""Requests that wait are joined where a build has proven it, and get what they would alone."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from served import Served, serving

import aotc_runtime
from aotc_runtime import LoadedBundle
from aotc_serve.batching.request_batching import Chooser, Plan, Sized, join_inputs, plan_of, split
from aotc_serve.inference.served_models import Model, models_of
from tests.conftest import Bundle

RANDOM = np.random.default_rng(4)


@pytest.fixture(scope="module")
def loaded(joins: Bundle) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(joins[0], trust=joins[1]) as bundle:
        yield bundle


def planned(loaded: LoadedBundle, name: str) -> tuple[Model, Plan]:
    """A model, and how its requests are joined."""
    model = models_of(loaded)[f"joins.{name}"]
    plan = plan_of(model)
    assert plan is not None
    return model, plan


def test_only_what_was_proven_to_be_split_is_joined(loaded: LoadedBundle) -> None:
    plans = {name: plan_of(model) for name, model in models_of(loaded).items()}
    # A running sum is padded well, and would be wrong behind the rows of another request.
    assert plans["joins.running"] is None
    assert plans["joins.scaled"] is None, "the factor of one request is not another's"
    plan = plans["joins.rows"]
    assert plan is not None and (plan.dimension, plan.largest) == ("batch", 16)
    assert (plan.inputs, plan.outputs) == ((0, 0), (1, 0))


def test_requests_differ_where_trials_show_no_change(loaded: LoadedBundle) -> None:
    plans = {name: plan_of(model) for name, model in models_of(loaded).items()}
    mixed = {name: plan.mixed for name, plan in plans.items() if plan is not None}
    assert (mixed["joins.masked"], mixed["joins.filled"]) == (("seq",), ("seq",))
    # One takes every row's mask from the first row; the other is told one length for all.
    assert (mixed["joins.first"], mixed["joins.counted"]) == ((), ())
    assert mixed["joins.rows"] == ()


COUNTS: dict[str, tuple[list[int], int]] = {
    "one": ([1], 1),
    "a profile of ones": ([1] * 4, 4),
    "the largest of ones": ([1] * 30, 16),
    "one beyond a profile": ([3, 1, 1], 2),
    "none beyond the largest": ([10, 10], 1),
    "a size larger than any profile": ([17, 1], 1),
}


@pytest.mark.parametrize(("waiting", "count"), COUNTS.values(), ids=COUNTS)
def test_cheapest_call_is_joined(loaded: LoadedBundle, waiting: list[int], count: int) -> None:
    model, plan = planned(loaded, "rows")
    sized = [Sized(rows, (), ()) for rows in waiting]
    assert Chooser(model, plan).choose(sized) == list(range(count))


LENGTHS: dict[str, tuple[list[tuple[int, int]], list[int]]] = {
    "one": ([(1, 3)], [0]),
    "all of one call": ([(1, 3), (1, 7), (1, 8), (1, 1)], [0, 1, 2, 3]),
    "long ones are passed over": ([(1, 3), (1, 9), (1, 7), (1, 16), (1, 8), (1, 2)], [0, 2, 4, 5]),
    "a long one has short ones beside it": ([(2, 9), (1, 3), (1, 4), (1, 1)], [0, 1, 2]),
}


@pytest.mark.parametrize(("waiting", "places"), LENGTHS.values(), ids=LENGTHS)
def test_of_other_lengths_those_are_joined_that_make_the_cheapest_call(
    loaded: LoadedBundle, waiting: list[tuple[int, int]], places: list[int]
) -> None:
    model, plan = planned(loaded, "masked")
    sized = [Sized(rows, (length,), ()) for rows, length in waiting]
    assert Chooser(model, plan).choose(sized) == places


@pytest.mark.parametrize("name", ["masked", "filled"])
@pytest.mark.parametrize("lengths", [[3, 7, 8, 1], [2, 2, 8, 8], [5, 1], [9, 3, 16, 4, 2]], ids=str)
def test_other_lengths_come_apart(loaded: LoadedBundle, name: str, lengths: list[int]) -> None:
    model, plan = planned(loaded, name)
    chooser = Chooser(model, plan)
    requests = [[RANDOM.random((1, length, 4), np.float32)] for length in lengths]
    if len(lengths) == 5:
        # With a length that no profile has a row for, and more rows than one call has.
        requests = [[RANDOM.random((4, length, 4), np.float32)] for length in lengths]
    known = [each for each in map(chooser.measure, requests) if each is not None]
    arrays, masks = join_inputs(model, plan, list(zip(known, requests, strict=True)))
    whole = model.call(arrays, masks)
    for request, part in zip(requests, split(model, plan, whole.result, known), strict=True):
        for got, wanted in zip(part, model.call(request).result, strict=True):
            assert got.shape == wanted.shape and not got.flags.writeable
            np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_what_saves_too_little_is_not_joined(loaded: LoadedBundle, encoder_bundle: Bundle) -> None:
    assert Chooser(*planned(loaded, "rows")).is_worth_it
    with aotc_runtime.load(encoder_bundle[0], trust=encoder_bundle[1]) as bundle:
        (model,) = {id(each): each for each in models_of(bundle).values()}.values()
        # Four texts at once cost nine tenths of what they cost one after the other.
        plan = plan_of(model)
        assert plan is not None and plan.mixed == ("seq",)
        assert not Chooser(model, plan).is_worth_it


def test_what_was_joined_comes_apart(loaded: LoadedBundle) -> None:
    model, plan = planned(loaded, "rows")
    chooser = Chooser(model, plan)
    requests = [[RANDOM.random((size, 4), np.float32) for _ in range(2)] for size in (3, 1, 9, 3)]
    sized = [chooser.measure(request) for request in requests]
    assert sized == [Sized(size, (), ()) for size in (3, 1, 9, 3)]
    assert chooser.measure([requests[0][0], requests[1][1]]) is None
    known = [each for each in sized if each is not None]
    arrays, masks = join_inputs(model, plan, list(zip(known, requests, strict=True)))
    assert masks is None
    whole = model.call(arrays)
    assert whole.executable == "rows[batch=16]"
    for request, part in zip(requests, split(model, plan, whole.result, known), strict=True):
        alone = model.call(request).result
        assert [each.tobytes() for each in part] == [each.tobytes() for each in alone]


@pytest.fixture(scope="module")
def served(joins: Bundle, encoder_bundle: Bundle) -> Iterator[Served]:
    bundles, policies = zip(joins, encoder_bundle, strict=True)
    with serving(bundles, policies, "--max-delay", "30") as server:
        yield server


def at_once(ask: Callable[[int], Any], count: int) -> list[Any]:
    """Return the responses of this many clients that call at the same time."""
    found: list[Any] = [None] * count
    together = threading.Barrier(count)

    def run(number: int) -> None:
        together.wait()
        found[number] = ask(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_joined_requests_get_what_is_theirs_and_are_told_what_served_them(served: Served) -> None:
    sizes = [1, 2, 3, 1, 4, 1, 1, 2] * 3
    x = [RANDOM.random((size, 4), np.float32) for size in sizes]
    y = [RANDOM.random((size, 4), np.float32) for size in sizes]

    def ask(number: int) -> Any:
        inputs = {"x": ("FP32", x[number]), "y": ("FP32", y[number])}
        return served.infer("joins.rows", inputs)

    requests = []
    for _ in range(3):
        for number, (status, document, outputs) in enumerate(at_once(ask, len(sizes))):
            assert status == 200
            assert outputs["sum"] == (x[number] * 2 + y[number]).tobytes()
            assert outputs["across"] == np.ascontiguousarray((x[number] + y[number]).T).tobytes()
            assert document["parameters"]["profile"].startswith("rows[batch=")
            requests.append(document["parameters"]["requests"])
    assert max(requests) > 1


def test_a_request_that_fails_fails_alone(served: Served) -> None:
    good = RANDOM.random((2, 4), np.float32)
    bad = RANDOM.random((65, 4), np.float32)

    def ask(number: int) -> Any:
        x = bad if number % 3 == 0 else good
        return served.infer("joins.rows", {"x": ("FP32", x), "y": ("FP32", x)})

    for number, (status, document, outputs) in enumerate(at_once(ask, 12)):
        if number % 3 == 0:
            assert (status, document["code"]) == (400, "AOTC-E613")
        else:
            assert outputs["sum"] == (good * 2 + good).tobytes()


def test_rows_that_depend_on_each_other_are_never_joined(served: Served) -> None:
    x = [RANDOM.random((2, 4), np.float32) for _ in range(8)]
    for number, (status, document, outputs) in enumerate(
        at_once(lambda n: served.infer("joins.running", {"x": ("FP32", x[n])}), 8)
    ):
        assert status == 200 and document["parameters"]["requests"] == 1
        got = np.frombuffer(outputs["result"], np.float32).reshape(2, 4)
        np.testing.assert_allclose(got, np.cumsum(x[number], axis=0), rtol=1e-6)


def test_requests_of_other_lengths_get_what_is_theirs(served: Served) -> None:
    lengths = [3, 7, 8, 1, 5, 12, 2, 16] * 2
    x = [RANDOM.random((1, length, 4), np.float32) for length in lengths]
    found = at_once(lambda n: served.infer("joins.masked", {"x": ("FP32", x[n])}), len(x))
    for given, (status, _, outputs) in zip(x, found, strict=True):
        assert status == 200
        assert outputs["twice"] == (given * 2).tobytes()
        got = np.frombuffer(outputs["mean"], np.float32)
        np.testing.assert_allclose(got, given.mean(1)[0], rtol=1e-5)
    assert max(document["parameters"]["requests"] for _, document, _ in found) > 1


def test_texts_that_are_not_worth_joining_are_answered_alone(served: Served) -> None:
    tokens = [RANDOM.integers(0, 100, (1, 9 + number)).astype(np.int32) for number in range(8)]
    found = at_once(lambda n: served.infer("encoder", {"tokens": ("INT32", tokens[n])}), 8)
    assert {(status, each["parameters"]["requests"]) for status, each, _ in found} == {(200, 1)}


def test_start_says_which_models_are_never_joined_and_why(served: Served) -> None:
    reasons = {
        model: each["reason"] for each in served.said("not-joined") for model in each["models"]
    }
    assert reasons.keys() == {"joins.running", "joins.scaled", "encoder"}
    assert "policy split" in reasons["joins.running"]
    assert "a fifth" in reasons["encoder"]
    joined = {model for each in served.said("joined") for model in each["models"]}
    assert "joins.rows" in joined and not joined & reasons.keys()
    text = served.ask("GET", "/metrics")[2].decode()
    assert f'aotc_server_batching_models{{reason=""}} {len(joined)}.0' in text
    why = reasons["encoder"]
    assert f'aotc_server_batching_models{{reason="{why}"}}' in text


def test_metrics_tell_how_many_were_joined(served: Served) -> None:
    row = ("FP32", np.ones((1, 4), np.float32))
    at_once(lambda _: served.infer("joins.rows", {"x": row, "y": row}), 16)
    text = served.ask("GET", "/metrics")[2].decode()
    assert 'aotc_server_joined_requests_count{model="joins.rows"}' in text
