"""`aotc trust add-key`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import click

from aotc.cli.common import Output, command


def _instant(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
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


@click.command("add-key")
@click.argument("policy", type=click.Path(path_type=Path))
@click.option(
    "--key", required=True, type=click.Path(path_type=Path), help="The public key to trust (.pub)."
)
@click.option("--certifier", is_flag=True, help="Trust its certificates, and nothing else of it.")
@click.option("--name", default="", help="What messages call it.")
@click.option("--not-before", callback=_instant, metavar="TIME", help="Does not count before.")
@click.option("--not-after", callback=_instant, metavar="TIME", help="Does not count after.")
@command
def add_key(
    out: Output,
    policy: Path,
    key: Path,
    certifier: bool,
    name: str,
    not_before: datetime | None,
    not_after: datetime | None,
) -> None:
    """Trust one more public key; the rest of the policy stays as it is.

    \b
    aotc trust add-key trust.toml --key ci-2027.pub --name ci-2027 --not-after 2028-01-01
    """
    from aotc.bundles import trust_files

    table = "certifiers" if certifier else "keys"
    added = trust_files.add_key(policy, key, name, not_before, not_after, table)
    trusts = "trusts certificates of" if certifier else "trusts"
    out.result(
        {"policy": str(policy), "key": added.id, "name": name or None, "table": table},
        lambda: print(f"{policy} {trusts} {added.id}"),
    )
