"""`aotc targets show`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.completion_command import target_names
from aotc_runtime.base.rendering import say


@click.command()
@click.argument("name", shell_complete=target_names)
@click.option("--toml", is_flag=True, help="Print a target file that needs nothing else.")
@command
def show(out: Output, name: str, toml: bool) -> None:
    """Show a target: the processor or device, and options.

    With --toml, a target file; that of an NVIDIA GPU brings the description that the CUDA plugin
    has of it, for plugins that have none (jaxlib 0.11.2).
    """
    from aotc.compile.compiler_registry import kind_of
    from aotc.compile.target_files import file_text
    from aotc.pipeline.build_plan import resolve_target
    from aotc.report.report_text import print_target
    from aotc.report.targets_report import target_document

    target = resolve_target(name, Path.cwd(), "aotc targets show")
    if toml:
        file = file_text(kind_of(target.platform).self_contained(target), target.name)
        out.result({"toml": file}, lambda: say(*file.splitlines()))
        return
    out.result({"target": target_document(target)}, lambda: print_target(target))
