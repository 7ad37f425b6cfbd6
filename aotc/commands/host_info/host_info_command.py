"""`aotc host-info`."""

from __future__ import annotations

import click

from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say

HELP_SECTION = "Run and measure"


@click.command("host-info", short_help="Describe this host as JSON, for `aotc compat --hosts`.")
@command
def host_info(out: Output) -> None:
    """Describe this host as JSON, for `aotc compat --hosts`: processor, system, jaxlib, memory.

    \b
    aotc host-info > facts/web7.json
    """
    from aotc_runtime.loader.verify_report import host_report

    report = host_report()
    document = {**report.document, "findings": []}
    out.result(document, lambda: say(*report.lines))
