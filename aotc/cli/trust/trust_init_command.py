"""`aotc trust init`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc_runtime.base.rendering import say

_UNHELD = (
    "nobody says who holds these keys, so each counts by itself: name their holders (--holder, or "
    "holder in the policy) before a key of somebody who has one is added"
)
_GLOB = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,128}\Z")


def _name(context: click.Context, option: click.Parameter, value: str) -> str:
    if not _GLOB.match(value):
        found = value.encode(errors="backslashreplace").decode()
        raise click.BadParameter(
            f"{found!r} is neither a bundle name nor a glob of some: letters, digits and ._-*?[!]",
            context,
            option,
        )
    return value


@click.command(short_help="Write a policy that trusts these public keys.")
@click.option(
    "--key",
    "keys",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    help="A public key to trust (.pub); may be given several times.",
)
@click.option(
    "--name",
    required=True,
    callback=_name,
    help='The bundle name, or a glob such as "team-*".',
)
@click.option(
    "--threshold", default=1, type=click.IntRange(min=1), help="Holders of keys that must sign."
)
@click.option(
    "--holder",
    "holders",
    multiple=True,
    help="Who holds the key; once for each --key, in their order.",
)
@click.option(
    "-o",
    "--output",
    default="trust.toml",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The policy to write; an existing file is never overwritten.",
)
@command
def init(
    out: Output,
    keys: tuple[Path, ...],
    name: str,
    threshold: int,
    holders: tuple[str, ...],
    output: Path,
) -> None:
    """Write a policy that trusts these public keys for bundles of this name.

    \b
    aotc trust init --key ci.pub --name digits
    aotc trust init --key ci.pub --holder ci --key release.pub --holder release --threshold 2 \\
      --name digits
    """
    from aotc.bundle.trust.trust_text import write_policy

    ids = write_policy(output, name, keys, threshold, holders)
    notes = [_UNHELD] if threshold > 1 and not holders else []

    def text() -> None:
        say(f"wrote {output}: trusts {', '.join(k[:16] for k in ids)} for {name}")
        print_notes(notes)

    document = {"policy": str(output), "name": name, "threshold": threshold, "keys": ids}
    out.result({**document, "holders": [*holders], "notes": notes}, text)
