"""Times on the command line."""

from __future__ import annotations

from datetime import UTC, date, datetime

import click


def instant(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    """2027-01-01T00:00:00Z, or a date for its first moment in UTC."""
    if value is None:
        return None
    try:
        if len(value) == len("2027-01-01"):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"no time: {error}", context, option) from error
    if moment.tzinfo is None:
        stated = f"{value!r} has no offset from UTC, such as Z or +02:00"
        raise click.BadParameter(stated, context, option)
    return moment
