"""A call may take as long as it gets on, and no longer."""

import threading
import time

import pytest

from aotc.commands.remote_cache.bounded_calls import (
    PACE_BYTES,
    Bounded,
    OutageError,
    Pace,
    UnreachableError,
)


def forever(pace: Pace) -> None:
    threading.Event().wait()


def test_what_gets_on_may_take_longer_than_silence_may() -> None:
    def slow(pace: Pace) -> int:
        for _ in range(8):
            time.sleep(0.2)
            pace.on_received(PACE_BYTES)
        return 1

    assert Bounded(1.0).call(slow) == 1


def test_answers_that_begin_are_progress_and_small_as_they_may_be() -> None:
    def several(pace: Pace) -> int:
        for _ in range(8):
            time.sleep(0.2)
            pace.on_response()
            pace.on_received(1)
        return 1

    assert Bounded(1.0).call(several) == 1


def test_a_trickle_is_no_progress() -> None:
    def trickle(pace: Pace) -> None:
        pace.on_response()
        for _ in range(100):
            time.sleep(0.1)
            pace.on_received(1)

    with pytest.raises(UnreachableError, match=r"\d+ bytes within 1\.\d s, \d+ in all"):
        Bounded(1.0).call(trickle)


def test_what_was_sent_has_time_to_leave_this_host() -> None:
    def write(pace: Pace) -> int:
        pace.on_sent(2**19)
        time.sleep(1.0)
        return 1

    assert Bounded(0.3).call(write) == 1

    def hangs(pace: Pace) -> None:
        pace.on_sent(1000)
        forever(pace)

    with pytest.raises(UnreachableError, match="no answer to 1000 bytes"):
        Bounded(0.3).call(hangs)


@pytest.mark.parametrize(
    ("error", "unreachable"),
    [(ConnectionResetError("x"), True), (TimeoutError("x"), True), (PermissionError("x"), False)],
)
def test_unreachable_is_said_only_without_connection(error: OSError, unreachable: bool) -> None:
    def fails(pace: Pace) -> None:
        raise error

    with pytest.raises(OutageError, match=f"{type(error).__name__} after 0.\\d s: x") as caught:
        Bounded().call(fails)
    assert isinstance(caught.value, UnreachableError) == unreachable


def test_what_runs_ends_for_the_first_reason_that_somebody_gave() -> None:
    bounded = Bounded(3600.0)
    threading.Timer(0.2, bounded.stop, ["first"]).start()
    with pytest.raises(OutageError, match="first"):
        bounded.call(forever)
    bounded.stop("second")
    with pytest.raises(OutageError, match="first"):
        bounded.call(lambda pace: None)
