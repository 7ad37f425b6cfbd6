"""`aotc targets show`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command
from aotc.cli.completion import target_names
from aotc_runtime.rendering import say


@click.command()
@click.argument("name", shell_complete=target_names)
@click.option("--toml", is_flag=True, help="Print a target file that needs nothing else.")
@command
def show(out: Output, name: str, toml: bool) -> None:
    """Show a target: the processor or device, and options.

    With --toml, a target file; that of an NVIDIA GPU brings the description that the CUDA plugin
    has of it, for plugins that have none (jaxlib 0.11.2).
    """
    from aotc.backends.registry import kind_of
    from aotc.backends.targets import file_text
    from aotc.pipeline.plan import resolve_target
    from aotc.report.targets import target_document
    from aotc.report.text import print_target

    target = resolve_target(name, Path.cwd(), "aotc targets show")
    if toml:
        file = file_text(kind_of(target.platform).self_contained(target), target.name)
        out.result({"toml": file}, lambda: say(*file.splitlines()))
        return
    out.result({"target": target_document(target)}, lambda: print_target(target))
