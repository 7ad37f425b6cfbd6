"""`aotc targets show`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command


@click.command()
@click.argument("name")
@command
def show(out: Output, name: str) -> None:
    """Show a target: processor, features, threads and options."""
    from aotc.build.plan import resolve_target
    from aotc.report.targets import target_document
    from aotc.report.text import print_target

    target = resolve_target(name, Path.cwd(), "NAME")
    out.result({"target": target_document(target)}, lambda: print_target(target))
