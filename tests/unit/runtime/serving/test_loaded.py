"""Calls: what is served, what is refused and why, and that every call is counted."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime import (
    BackendError,
    DeviceArray,
    LoadedBundle,
    LoadedEntryPoint,
    ResourceError,
    ShapeError,
)
from aotc_runtime.engines.xla.xla_client import XlaDevice
from tests.conftest import Bundle
from tests.refusals import error_of

from ..samples import refused as refusing


def image(batch: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(0, 16, (batch, 64)).astype(np.float32)


def called_async(entry_point: LoadedEntryPoint) -> Callable[..., Any]:
    return lambda *arguments: asyncio.run(entry_point.call_async(*arguments))


def refused(bundle: LoadedBundle, *args: Any, **kwargs: Any) -> ShapeError:
    before = bundle["predict"].refusals.copy()
    caught = error_of(ShapeError, bundle["predict"], *args, **kwargs)
    code = caught.code
    assert bundle["predict"].refusals[code] == before.get(code, 0) + 1, "refusals are counted"
    return caught


def test_every_profile_is_served_by_position_and_by_name(digits: LoadedBundle) -> None:
    for batch in (1, 8, 64):
        label = f"predict[batch={batch}]"
        calls = digits["predict"].calls[label]
        one, two = digits["predict"](image(batch)), digits["predict"](image=image(batch))
        np.testing.assert_array_equal(one["probabilities"], two["probabilities"])
        np.testing.assert_allclose(one["probabilities"].sum(axis=1), 1, rtol=1e-5)
        assert one["label"].shape == (batch,) and one["label"].dtype == np.int32
        assert digits["predict"].calls[label] == calls + 2


def test_shape_outside_profiles_names_them_and_the_policy(digits: LoadedBundle) -> None:
    error = refused(digits, image(7))
    assert error.code == "AOTC-E611"
    (finding,) = error.findings
    assert "batch=1; batch=8; batch=64" in finding.expected and "fail" in finding.expected
    assert finding.found == "batch=7 (image float32[7, 64])" and finding.where == "predict"
    for call in (digits["predict"].on_device, called_async(digits["predict"])):
        assert error_of(ShapeError, call, image(7)).code == "AOTC-E611"


def test_xla_error_is_ours_counted(digits: LoadedBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    predict = digits["predict"]
    before = predict.refusals.get("AOTC-E755", 0)
    device = predict._table[(8, 64),].device

    def no_memory(*_: Any) -> Any:
        raise device.error("RESOURCE_EXHAUSTED: out of memory\nand more")

    with monkeypatch.context() as patched:
        # Beside jax, calls do not go directly.
        for name in ("call", "direct"):
            patched.setattr(predict._table[((8, 64),)], name, no_memory)
        patched.setattr(XlaDevice, "execute", no_memory)
        for call in (predict, predict.on_device):
            caught = error_of(BackendError, call, image(8))
            assert caught.code == "AOTC-E755"
            assert caught.findings[0].found == "XLA: RESOURCE_EXHAUSTED: out of memory"
    assert predict.refusals["AOTC-E755"] == before + 2
    predict(image(8))


def test_a_donated_array_is_given_back_when_xla_fails(train: LoadedBundle) -> None:
    step = train["train_step"]
    batch = {"image": image(64), "label": np.zeros(64, np.int32)}
    before = step.refusals.get("AOTC-E755", 0)
    for call in (step, step.on_device, called_async(step)):
        state = train["init"].on_device(0)
        first, *others = _leaves(state)
        first.buffer().delete()
        with refusing("AOTC-E755"):
            call(state, batch)
        assert first.is_deleted and not any(leaf.is_deleted for leaf in others)
    assert step.refusals["AOTC-E755"] == before + 3


@pytest.mark.parametrize("shape", [(8,), (8, 64, 1), (64, 8), ()])
def test_other_rank_or_axis_is_refused(shape: tuple[int, ...], digits: LoadedBundle) -> None:
    error = refused(digits, np.zeros(shape, np.float32))
    assert error.code == "AOTC-E612"
    (finding,) = error.findings
    assert finding.expected == "float32[batch, 64]"
    assert finding.found == f"float32{list(shape)}" and finding.where == "predict image"


def test_an_empty_batch_is_outside_of_the_range(digits: LoadedBundle) -> None:
    assert refused(digits, np.zeros((0, 64), np.float32)).code == "AOTC-E613"


def test_static_and_bound_parameters_are_gone(digits: LoadedBundle) -> None:
    assert list(digits["predict"].signature.parameters) == ["image"]
    assert refused(digits, image(8), temperature=1.0).code == "AOTC-E601"
    assert refused(digits, image(8), params={}).code == "AOTC-E601"


def test_arguments_may_change_after_the_call_and_results_cannot(digits: LoadedBundle) -> None:
    argument = image(8)
    result = digits["predict"].on_device(argument)
    expected = digits["predict"](image(8))["probabilities"]
    argument[:] = 0
    np.testing.assert_array_equal(np.asarray(result["probabilities"]), expected)
    with pytest.raises(ValueError, match="read-only"):
        expected[:] = 0


def test_an_unknown_entry_point_is_refused_with_the_known_ones(digits: LoadedBundle) -> None:
    with pytest.raises(ShapeError) as caught:
        digits["prefill"]
    assert caught.value.code == "AOTC-E602" and "predict" in caught.value.findings[0].expected
    with pytest.raises(ShapeError) as caught:
        digits["predct"]
    assert caught.value.findings[0].hint == "did you mean `predict`?"
    for key in (0, ["predict"], None):
        with refusing("AOTC-E602"):
            digits[key]  # type: ignore[index]
    assert "predict" in digits and "prefill" not in digits and list(digits) == ["predict"]
    assert len(digits) == 1


def test_the_report_is_json_and_says_that_nothing_was_compiled(digits: LoadedBundle) -> None:
    report = json.loads(json.dumps(digits.report()))
    assert report["compilations"] == 0
    assert [f["label"] for f in report["fixtures"]] == list(digits["predict"].calls)
    assert report["root_digest"] == digits.root_digest and len(report["signers"]) == 1
    assert {"open", "import", "policy", "verify", "runtime", "deserialize"} <= set(
        report["timings"]
    )


def test_device_arrays_are_fed_back_and_a_donated_one_is_used_up(train: LoadedBundle) -> None:
    step = train["train_step"]
    batch = {"image": image(64), "label": np.zeros(64, np.int32)}
    state = train["init"].on_device(0)
    result = step.on_device(state, batch)
    again = train["init"].on_device(0)
    plain = step({k: _to_numpy(v) for k, v in again.items()}, batch)
    np.testing.assert_array_equal(np.asarray(result[1]["loss"]), plain[1]["loss"])
    caught = error_of(ShapeError, step.on_device, state, batch)
    assert caught.code == "AOTC-E631"
    assert "train_step[batch=64]" in caught.findings[0].found
    leaf = next(_leaves(state))
    assert leaf.is_deleted and "used up" in repr(leaf)
    error_of(ShapeError, np.asarray, leaf)


def test_a_refused_call_uses_nothing_up(train: LoadedBundle) -> None:
    state = train["init"].on_device(0)
    with pytest.raises(ShapeError):
        train["train_step"](state, {"image": image(63), "label": np.zeros(63, np.int32)})
    assert not any(leaf.is_deleted for leaf in _leaves(state))


def test_an_array_cannot_be_donated_twice_in_one_call(train: LoadedBundle) -> None:
    state = train["init"].on_device(0)
    params, shared = state["params"], state["optimizer"][0]
    doubled = {**state, "optimizer": (shared._replace(mu=params), *state["optimizer"][1:])}
    with refusing("AOTC-E632"):
        train["train_step"](doubled, {"image": image(64), "label": np.zeros(64, np.int32)})
    assert not any(leaf.is_deleted for leaf in _leaves(state))


@pytest.mark.parametrize("seed", [3, np.uint32(3), np.asarray(3, np.uint32)])
def test_a_scalar_is_a_number_or_an_array(seed: Any, train: LoadedBundle) -> None:
    expected = train["init"](np.asarray(3, np.uint32))["params"]["hidden"]["kernel"]
    found = train["init"](seed)["params"]["hidden"]["kernel"]
    np.testing.assert_array_equal(found, expected)


def test_a_closed_bundle_refuses_calls_whatever_their_shape(digits_bundle: Bundle) -> None:
    bundle = aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1])
    predict = bundle["predict"]
    kept = predict(image(8))["probabilities"]
    copied = kept.copy()
    bundle.close()
    bundle.close()
    for batch in (8, 7):
        with refusing("AOTC-E633"):
            predict(image(batch))
    np.testing.assert_array_equal(kept, copied)


def _leaves(value: Any) -> Iterator[DeviceArray]:
    if isinstance(value, DeviceArray):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from _leaves(child)
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from _leaves(child)


def _to_numpy(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return np.asarray(value)
    if isinstance(value, dict):
        return {key: _to_numpy(child) for key, child in value.items()}
    if hasattr(value, "_fields"):
        return type(value)(*map(_to_numpy, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_to_numpy, value))
    return value


@pytest.mark.parametrize(
    ("argument", "value", "code"),
    [
        ("threads", "2", "AOTC-E552"),
        ("threads", True, "AOTC-E552"),
        ("threads", 1.5, "AOTC-E552"),
        ("memory_limit", "2 GiB", "AOTC-E556"),
        ("memory_limit", -1, "AOTC-E556"),
    ],
)
def test_bad_limits_fail(argument: str, value: object, code: str, digits_bundle: Bundle) -> None:
    with pytest.raises(ResourceError) as caught:
        aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1], **{argument: value})
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == (code, f"load {argument}")
    assert finding.found == repr(value)


def test_a_load_without_a_policy_is_refused(digits_bundle: Bundle) -> None:
    with refusing("AOTC-E309"):
        aotc_runtime.load(digits_bundle[0], trust=None)  # type: ignore[call-overload]
