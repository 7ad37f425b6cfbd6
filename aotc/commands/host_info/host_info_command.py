"""`aotc host-info`."""

import click

from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say


@click.command("host-info")
@command
def host_info(out: Output) -> None:
    """Print a JSON description of this host.

    Describes processor features, operating system, jaxlib, devices and memory, for
    `aotc compat --hosts`. With only the runtime installed, use `aotc-runtime host-info`.

    \b
    aotc host-info > hosts/web7.json
    """
    from aotc_runtime.loader.verify_report import host_report

    report = host_report()
    document = {**report.document, "findings": []}
    out.result(document, lambda: say(*report.lines))
