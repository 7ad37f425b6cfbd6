"""Keys of a policy whose signatures verify and do not count: expired, not yet valid, or revoked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from aotc_runtime.errors import Finding, finding
from aotc_runtime.verification.keys import PublicKey


def idle_findings(where: str, keys: Iterable[PublicKey], now: float) -> Iterator[Finding]:
    """Why signatures that verify did not count, one finding for each key."""
    clock = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    for key in keys:
        state = key.state(now)
        if state == "revoked":
            yield finding(
                "AOTC-E312",
                f"{where} key {key.label}",
                f"one by {key.id}, which the policy lists under revoked.keys",
            )
            continue
        early = state == "not yet valid"
        bound = key.not_before if early else key.not_after
        assert bound is not None, "a key without bounds is always valid"
        limit, side = ("not_before", "from") if early else ("not_after", "up to")
        yield finding(
            "AOTC-E311",
            f"{where} key {key.label}",
            f"a check at {clock}: the key is {state}, and its signature does not count",
            expected=f"a check {side} {bound.isoformat()}, the key's {limit}",
            hint="check again after that time, or sign with a key that is valid already"
            if early
            else "sign with a key that is valid now (`aotc sign BUNDLE --key KEY`), or if this one "
            "is still to be trusted, move its not_after",
        )
