"""`aotc trust add-key`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.trust.time_option import instant
from aotc_runtime.base.rendering import say


@click.command("add-key")
@click.argument("policy", type=click.Path(path_type=Path))
@click.option(
    "--key", required=True, type=click.Path(path_type=Path), help="The public key to trust (.pub)."
)
@click.option("--certifier", is_flag=True, help="Trust its certificates, and nothing else of it.")
@click.option("--name", default="", help="What messages call it.")
@click.option("--holder", default="", help="Whose key it is; keys of one holder count once.")
@click.option(
    "--builder",
    "builders",
    multiple=True,
    metavar="ID",
    help="A builder whose builds it may describe; may be given several times.",
)
@click.option("--endorses-only", is_flag=True, help="It may describe no build.")
@click.option("--not-before", callback=instant, metavar="TIME", help="Does not count before.")
@click.option("--not-after", callback=instant, metavar="TIME", help="Does not count after.")
@command
def add_key(
    out: Output,
    policy: Path,
    key: Path,
    certifier: bool,
    name: str,
    holder: str,
    builders: tuple[str, ...],
    endorses_only: bool,
    not_before: datetime | None,
    not_after: datetime | None,
) -> None:
    """Trust one more public key; the rest of the policy stays as it is.

    \b
    aotc trust add-key trust.toml --key ci-2027.pub --name ci-2027 --holder ci \\
      --not-after 2028-01-01
    """
    from aotc.bundle.trust import trust_files

    if certifier and (holder or builders or endorses_only):
        raise click.UsageError("--holder, --builder and --endorses-only are not for certifiers")
    if builders and endorses_only:
        raise click.UsageError("--builder or --endorses-only, not both")
    table = "certifiers" if certifier else "keys"
    speaks_for = builders if builders or endorses_only else None
    added = trust_files.add_key(policy, key, name, not_before, not_after, table, holder, speaks_for)
    trusts = "trusts certificates of" if certifier else "trusts"

    def text() -> None:
        say(f"{policy} {trusts} {added.key.id}")
        print_notes(added.notes)

    document = {"policy": str(policy), "key": added.key.id, "name": name or None, "table": table}
    stated = {"holder": holder or None, "builders": speaks_for and [*speaks_for]}
    out.result({**document, **stated, "notes": [*added.notes]}, text)
