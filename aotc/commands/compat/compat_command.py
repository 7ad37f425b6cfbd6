"""`aotc compat`."""

import re
from pathlib import Path

import click

from aotc.cli import reference_options
from aotc.cli.command_output import FILE, Output, command

HELP_SECTION = "Inspect and verify"

VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,4}((a|b|rc|\.dev|\.post)\d{1,9})?", re.ASCII)


def _versions(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Reject values that are not versions: a misspelt one would be reported as unknown."""
    for value in values:
        if not VERSION.fullmatch(value):
            wanted = f"{value!r} is not a version, such as 0.12.0."
            raise click.BadParameter(wanted, context, option)
    return values


@click.command()
@reference_options.bundle_argument
@click.argument(
    "facts", nargs=-1, type=FILE, metavar="[HOST_FILE]...", help="More files of --hosts"
)
@click.option(
    "--hosts",
    "hosts",
    multiple=True,
    type=FILE,
    help="Output of `aotc-runtime host-info`",
)
@click.option(
    "--jaxlib",
    "jaxlibs",
    multiple=True,
    callback=_versions,
    metavar="VERSION",
    help="Assume this jaxlib version (repeatable)",
)
@reference_options.trust_option("Trust policy whose certifiers count")
@reference_options.fetching_options
@command
def compat(
    out: Output,
    bundle: reference_options.BundleReference,
    facts: tuple[Path, ...],
    hosts: tuple[Path, ...],
    jaxlibs: tuple[str, ...],
    trust: Path | None,
    full: bool,
    ca: Path | None,
) -> int:
    """Show which targets run on which hosts.

    Rates each target on each host as usable, unknown, or no, with the reasons. Without --hosts,
    checks this host. Checks digests; signatures only with --trust.

    \b
    aotc compat digits-1.0.0.aotb --hosts hosts/*.json

    Exit code 7 if no target runs on one of the hosts.
    """
    import time

    from aotc.bundle.read.opened_bundle import open_attributed
    from aotc.commands.compat.compat_text import compat_document, compat_findings, compat_lines
    from aotc.commands.compat.host_matches import match_hosts, read_hosts
    from aotc.compile.target_files import known_targets
    from aotc_runtime.engines.engine_survey import detect_all
    from aotc_runtime.verification.policy_reader import read_policy

    known = known_targets(Path.cwd())
    policy, now = read_policy(trust) if trust else None, time.time()
    with reference_options.open_with_notes(out, bundle, policy, full=full, ca=ca) as found:
        read = open_attributed(found.source, policy, now, found.unread)
    named = (*hosts, *facts)
    described = read_hosts(named) if named else {"this host": detect_all()}
    rows = match_hosts(read, described, jaxlibs, known, policy, now)
    document = compat_document(found.shown, read, rows)
    document["weights_hashed"] = not found.unread
    return out.verdict(document, compat_lines(document), tuple(compat_findings(rows)), 7)
