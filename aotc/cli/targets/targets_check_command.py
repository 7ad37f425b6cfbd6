"""`aotc targets check`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, report_findings
from aotc.cli.completion_command import target_names


@click.command(short_help="Compile a trivial program for a target.")
@click.argument("name", shell_complete=target_names)
@command
def check(out: Output, name: str) -> int | None:
    """Compile a trivial program for a target, and say whether this host could run it.

    Ends with 0 if this machine can compile for the target, whether or not it can run the code.
    """
    from aotc.base.errors import CompileError
    from aotc.pipeline.build_plan import resolve_target
    from aotc.pipeline.target_check import check_target
    from aotc.report.targets_report import check_document, print_check

    checked = check_target(resolve_target(name, Path.cwd(), "aotc targets check"))
    document = check_document(checked)
    if checked.compiler:
        report_findings(out, checked.compiler, CompileError.exit_code, **document)
        return CompileError.exit_code
    out.result(document, lambda: print_check(checked))
    return None
