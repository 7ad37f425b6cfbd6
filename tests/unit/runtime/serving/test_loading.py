"""Loading in the background: states in their order, polling, waiting, awaiting, failing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime import (
    LoadedBundle,
    Loading,
    ResourceError,
    ShapeError,
    State,
    TrustError,
    TrustPolicy,
)
from aotc_runtime.schema.trust_policy import TrustedKey

Bundle = tuple[Path, Path]


def test_work_that_took_too_long_itself_is_told_in_its_own_words() -> None:
    def work(enter: Callable[[State], None]) -> LoadedBundle:
        raise TimeoutError("the registry did not answer")

    with pytest.raises(TimeoutError, match="the registry did not answer"):
        Loading(work).wait(60)


def test_it_is_ready_only_when_the_work_is_done(digits_bundle: Bundle) -> None:
    bundle = aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1])
    steps = {state: threading.Event() for state in (State.LOADING, State.WARMING, State.READY)}
    entered = threading.Semaphore(0)

    def work(enter: Callable[[State], None]) -> LoadedBundle:
        for state in (State.LOADING, State.WARMING):
            steps[state].wait()
            enter(state)
            entered.release()
        steps[State.READY].wait()
        return bundle

    loading = Loading(work)
    assert loading.state is State.VERIFYING
    for state in (State.LOADING, State.WARMING):
        steps[state].set()
        entered.acquire()
        assert loading.state is state
        with pytest.raises(TimeoutError):
            loading.wait(0)
    steps[State.READY].set()
    assert loading.wait(10) is bundle
    assert loading.state is State.READY and loading.error is None
    bundle.close()


def test_a_bundle_loads_while_the_caller_goes_on(digits_bundle: Bundle) -> None:
    loading = aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1], wait=False)
    bundle = loading.wait(60)
    assert bundle.state is State.READY
    assert bundle["predict"](np.zeros((1, 64), np.float32))["label"].shape == (1,)
    bundle.close()
    assert bundle.state is State.CLOSED


def test_a_handle_is_no_bundle_and_says_what_is(digits_bundle: Bundle) -> None:
    loading = aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1], wait=False)
    with pytest.raises(ShapeError) as caught:
        loading["predict"]
    assert (caught.value.code, "wait()" in caught.value.findings[0].hint) == ("AOTC-E633", True)
    loading.wait(60).close()


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
def test_a_limit_that_is_no_number_is_refused(
    argument: str, value: object, code: str, digits_bundle: Bundle
) -> None:
    with pytest.raises(ResourceError) as caught:
        aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1], **{argument: value})
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == (code, f"load {argument}")
    assert finding.found == repr(value)


def test_it_can_be_awaited_again_and_again(digits_bundle: Bundle) -> None:
    async def main() -> tuple[LoadedBundle, LoadedBundle]:
        loading = aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1], wait=False)
        return await loading, await loading

    one, two = asyncio.run(main())
    assert one is two
    one.close()


def test_a_refusal_is_kept_and_raised_to_whoever_waits(digits_bundle: Bundle) -> None:
    text = digits_bundle[1].read_text()
    pem = text[text.index("-----BEGIN") : text.index("-----END")] + "-----END PUBLIC KEY-----\n"
    policy = TrustPolicy(schema=1, name="another", keys=(TrustedKey(public_key=pem),))
    loading = aotc_runtime.load(digits_bundle[0], trust=policy, wait=False)
    with pytest.raises(TrustError) as caught:
        loading.wait(60)
    assert loading.state is State.FAILED
    assert loading.error is caught.value and caught.value.code == "AOTC-E306"
    with pytest.raises(TrustError):
        asyncio.run(_await(loading))


async def _await(loading: Loading) -> LoadedBundle:
    return await loading


def test_what_is_no_refusal_is_raised_and_is_no_error_of_ours() -> None:
    def work(enter: Callable[[State], None]) -> LoadedBundle:
        raise MemoryError

    loading = Loading(work)
    with pytest.raises(MemoryError):
        loading.wait()
    assert loading.state is State.FAILED and loading.error is None
