"""`aotc report`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from aotc.cli import reference_options
from aotc.cli.command_output import FILE, Output, command
from aotc_runtime.base.rendering import say

HELP_SECTION = "Inspect and verify"


@click.command()
@reference_options.bundle_argument
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("report.html"),
    show_default=True,
    help="Output file (.html)",
)
@reference_options.trust_option("Trust policy that must accept the bundle")
@reference_options.fetching_options
@command
def report(
    out: Output,
    bundle: reference_options.BundleReference,
    output: Path,
    trust: Path | None,
    full: bool,
    ca: Path | None,
) -> None:
    """Write an HTML report about a bundle.

    The page is self-contained and runs no scripts. It shows signers, interface, sizes, memory,
    costs, numerical differences, provenance and bills of materials. Signatures are checked only
    with --trust. Replaces an older report, and no other file.

    \b
    aotc report digits-1.0.0.aotb --trust trust.toml -o report.html
    """
    from aotc.bundle.read.bundle_review import review
    from aotc.bundle.trust.trust_state import state_of
    from aotc.bundle.write.atomic_files import write_atomically
    from aotc.bundle.write.output_paths import REPORT, require_file_place
    from aotc.commands.report_page.page_renderer import page_of, render
    from aotc.report.report_text import size
    from aotc.report.trust_report import policy_document
    from aotc_runtime.base.digest import sha256
    from aotc_runtime.verification.policy_reader import read_policy

    require_file_place(output, REPORT)
    policy, now = read_policy(trust) if trust else None, datetime.now(UTC)
    rules = policy_document("", state_of(policy, now, str(trust))) if policy else None
    with reference_options.open_with_notes(out, bundle, policy, full=full, ca=ca) as found:
        read = review(found.source, policy, now, found.unread)
        data = render(page_of(read, rules))
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
