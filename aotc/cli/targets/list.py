"""`aotc targets list`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command


@click.command("list")
@command
def list_(out: Output) -> None:
    """List the targets that a manifest in the current folder can name."""
    from aotc.config.target import list_targets

    found = [
        {"name": model.name, "description": model.description, "path": str(path)}
        for path, model in list_targets(Path.cwd())
    ]

    def text() -> None:
        for target in found:
            print(f"{target['name']:<20} {target['description']}")
        print(f"{'native':<20} the host that builds, described by XLA")

    out.result({"targets": found}, text)
