"""`aotc host-info`."""

from __future__ import annotations

import sys

import click

from aotc.cli.common import Output, command


@click.command("host-info", short_help="Describe this host as JSON, for `aotc compat --hosts`.")
@command
def host_info(out: Output) -> None:
    """Describe this host as JSON, for `aotc compat --hosts`: processor, system, jaxlib, memory.

    \b
    aotc host-info > facts/web7.json
    """
    from aotc_runtime.report import host_report

    report = host_report()
    document = {**report.document, "findings": []}
    out.result(document, lambda: sys.stdout.writelines(f"{line}\n" for line in report.lines))
