"""`aotc compat`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.common import Output, command, report_findings
from aotc.cli.host_options import assumed_jaxlibs, described_hosts

if TYPE_CHECKING:
    from aotc_runtime.schema.facts import HostFacts


@click.command(short_help="Say which target runs on which host, and how well.")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("facts", nargs=-1, type=click.Path(path_type=Path))
@described_hosts("; more may follow. Default: this host.")
@assumed_jaxlibs
@click.option(
    "--trust",
    type=click.Path(path_type=Path),
    help="Let certificates of this policy's certifiers count.",
)
@command
def compat(
    out: Output,
    bundle: Path,
    facts: tuple[Path, ...],
    hosts: tuple[Path, ...],
    jaxlibs: tuple[str, ...],
    trust: Path | None,
) -> int:
    """Say which target of a bundle runs on which host, how well, and how that is known.

    Ends with 7 if any host has none. Checks digests; signatures only with --trust.

    \b
    aotc compat digits-1.0.0.aotb --hosts facts/*.json
    """
    from aotc.backends.targets import known_targets
    from aotc.bundles.compat import judge
    from aotc.compat.host_files import read_hosts
    from aotc.workshops.compat.text import compat_document, compat_findings, compat_lines
    from aotc_runtime.engines.survey import detect_all

    named = (*hosts, *facts)

    def described() -> Mapping[str, HostFacts]:
        return read_hosts(named) if named else {"this host": detect_all()}

    contents, rows = judge(bundle, described, jaxlibs, known_targets(Path.cwd()), trust)
    document = compat_document(str(bundle), contents, rows, is_verified=trust is not None)
    if not out.json:
        print(*compat_lines(document), sep="\n")
    if findings := tuple(compat_findings(rows)):
        report_findings(out, findings, 7, **document)
        return 7
    if out.json:
        out.document({"ok": True, **document, "findings": []})
    return 0
