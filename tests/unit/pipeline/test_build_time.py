"""When a build says that it ended: SOURCE_DATE_EPOCH where it is set, else the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aotc.base.errors import UsageError
from aotc.pipeline.build_time import stated_time, time_of_build


def test_the_environment_decides_where_it_says_something() -> None:
    assert stated_time({}) is None
    stated = stated_time({"SOURCE_DATE_EPOCH": "1700000000"})
    assert stated == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC) == time_of_build(stated)


def test_else_the_clock_does_in_whole_seconds() -> None:
    found = time_of_build(None)
    assert found.microsecond == 0 and found.tzinfo is UTC
    assert timedelta() <= datetime.now(UTC) - found < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["", "now", "-1", "1.5", " 1", "1_0", "١", "9" * 30])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        stated_time({"SOURCE_DATE_EPOCH": text})
    assert refused.value.code == "AOTC-E015"
