"""The time that a build states in its provenance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from aotc.base.errors import refusal

VARIABLE = "SOURCE_DATE_EPOCH"
"""https://reproducible-builds.org/specs/source-date-epoch: seconds since the epoch."""


def stated_time(environment: Mapping[str, str]) -> datetime | None:
    """The time that the environment asks builds to state, UTC; None if it leaves that to the clock.

    Raises UsageError (AOTC-E015) if the variable holds anything else than such a time.
    """
    text = environment.get(VARIABLE)
    if text is None:
        return None
    try:
        if not (text.isascii() and text.isdigit()):
            raise ValueError(text)
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise refusal(
            "AOTC-E015",
            VARIABLE,
            repr(text),
            hint=f"correct it, or unset {VARIABLE} to state the time of the build",
        ) from error


def time_of_build(stated: datetime | None) -> datetime:
    """The stated time, or now; whole seconds, UTC."""
    return stated or datetime.fromtimestamp(int(time.time()), UTC)
