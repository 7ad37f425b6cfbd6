"""`aotc trust`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command


@click.group()
def trust() -> None:
    """Write and read trust policies."""


@trust.command()
@click.option("--key", "keys", required=True, multiple=True, type=click.Path(path_type=Path))
@click.option("--name", required=True, help='The bundle name, or a glob such as "team-*".')
@click.option("--threshold", default=1, type=click.IntRange(min=1), help="Keys that must sign.")
@click.option("-o", "--output", default="trust.toml", type=click.Path(path_type=Path))
@command
def init(out: Output, keys: tuple[Path, ...], name: str, threshold: int, output: Path) -> None:
    """Write a policy that trusts these public keys for bundles of this name.

    \b
    aotc trust init --key ci.pub --name digits
    """
    from aotc.signing.trust_file import write_policy

    ids = write_policy(output, name, keys, threshold)
    out.result(
        {"policy": str(output), "name": name, "threshold": threshold, "keys": ids},
        lambda: print(f"wrote {output}: trusts {', '.join(k[:16] for k in ids)} for {name}"),
    )
