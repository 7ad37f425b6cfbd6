"""`aotc report`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.host_options import assumed_jaxlibs, described_hosts
from aotc.cli.reference_options import (
    PATH,
    PLACE,
    Place,
    fetching_options,
    looked,
    trust_option,
)
from aotc_runtime.base.rendering import say

HELP_SECTION = "Review"


@click.command(short_help="Write one self-contained HTML page for a reviewer.")
@click.argument("bundle", type=PLACE)
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("report.html"),
    show_default=True,
    help="The page; replaces an older report, and no other file.",
)
@trust_option("A policy that has to accept the bundle; the page then says who counts.")
@described_hosts(", for the matrix; may repeat.")
@assumed_jaxlibs
@fetching_options
@command
def report(
    out: Output,
    bundle: Place,
    output: Path,
    trust: Path | None,
    hosts: tuple[Path, ...],
    jaxlibs: tuple[str, ...],
    full: bool,
    ca: Path | None,
) -> None:
    """Write one self-contained HTML page about a bundle, for whoever reviews it.

    Without --trust, digests are checked and signatures are not, which the page says. Nothing is
    loaded.

    \b
    aotc report digits-1.0.0.aotb --trust trust.toml -o report.html
    """
    from datetime import UTC, datetime

    from aotc.bundle.read.bundle_review import review
    from aotc.bundle.read.host_matches import read_hosts
    from aotc.bundle.trust.trust_state import state_of
    from aotc.bundle.write.atomic_files import write_atomically
    from aotc.bundle.write.output_paths import REPORT, require_file_place
    from aotc.commands.report_page.hosts_section import Asked
    from aotc.commands.report_page.page_renderer import page_of, render
    from aotc.compile.target_files import known_targets
    from aotc.report.report_text import size
    from aotc.report.trust_report import policy_document
    from aotc_runtime.base.digest import sha256
    from aotc_runtime.verification.policy_reader import read_policy

    require_file_place(output, REPORT)
    policy, now = read_policy(trust) if trust else None, datetime.now(UTC)
    facts = read_hosts(hosts) if hosts else {}
    known = known_targets(Path.cwd()) if hosts else []
    rules = policy_document("", state_of(policy, now, str(trust))) if policy else None
    asked = Asked(facts, jaxlibs, known, policy, now)
    with looked(out, bundle, policy, full=full, ca=ca) as found:
        read = review(found.source, policy, now, found.unread)
        data = render(page_of(read, asked, rules))
    size_bytes = write_atomically(output, [data])
    document = {
        "report": str(output),
        "size_bytes": size_bytes,
        "digest": sha256(data),
        "bundle": found.shown,
        "weights_hashed": not found.unread,
        "root_digest": read.root_digest,
        "signatures_verified": read.verified,
        "signers": list(read.signers),
    }
    asked_whom = "" if trust else ", signatures not checked"
    out.result(document, lambda: say(f"wrote {output}, {size(size_bytes)}{asked_whom}"))
