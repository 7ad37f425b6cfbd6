"""Which requests are answered in the event loop: small ones that have been quick, and no others."""

from __future__ import annotations

import pytest

from aotc_serve.service import request_service as module
from aotc_serve.service.request_service import (
    BARRED_TIMES,
    HELD_SECONDS,
    QUICK_BYTES,
    QUICK_MOST,
    QUICK_SECONDS,
    Quick,
)

KIND = ("m", "", 100)


def test_nothing_is_quick_before_it_was_tried() -> None:
    assert not Quick().holds(KIND)


def test_what_was_quick_is_until_it_takes_long() -> None:
    quick = Quick()
    quick.took(KIND, QUICK_SECONDS / 10)
    assert quick.holds(KIND) and not quick.holds(("m", "", 101))
    quick.took(KIND, QUICK_SECONDS * 10)
    assert not quick.holds(KIND)
    for _ in range(20):
        quick.took(KIND, QUICK_SECONDS / 10)
    assert quick.holds(KIND)


def test_large_requests_never_are() -> None:
    quick = Quick()
    quick.took(("m", "", QUICK_BYTES + 1), 0.0)
    assert not quick.holds(("m", "", QUICK_BYTES + 1))


def test_names_that_clients_make_up_do_not_fill_the_memory() -> None:
    quick = Quick()
    for size in range(3 * QUICK_MOST):
        quick.took(("m", "", size), 0.0)
    assert len(quick._seconds) <= QUICK_MOST


def test_a_model_is_barred_for_many_times_as_long_as_it_held_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    quick = Quick()
    for kind in (KIND, ("other", "", 100)):
        quick.took(kind, 0.0)
    quick.held("m", HELD_SECONDS)
    assert quick.holds(KIND)
    quick.held("m", 1.0)
    assert not quick.holds(KIND) and quick.holds(("other", "", 100))
    now += BARRED_TIMES - 1
    assert not quick.holds(KIND)
    now += 1
    assert quick.holds(KIND)
