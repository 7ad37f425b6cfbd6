"""`aotc trust`: writes, changes, shows and checks trust policies."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import click

from aotc.cli.command_output import FILE, Output, command, print_notes, report_findings
from aotc.cli.reference_options import BUNDLE_FILE
from aotc_runtime.base.rendering import say

_UNHELD = (
    "nobody says who holds these keys, so each counts by itself: name their holders (--holder, or "
    "holder in the policy) before a key of somebody who has one is added"
)
_GLOB = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,128}\Z")


def _name(context: click.Context, option: click.Parameter, value: str) -> str:
    if not _GLOB.match(value):
        found = value.encode(errors="backslashreplace").decode()
        raise click.BadParameter(
            f"{found!r} is neither a bundle name nor a glob of some: letters, digits and ._-*?[!]",
            context,
            option,
        )
    return value


def _instant(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    """2027-01-01T00:00:00Z, or a date for its first moment in UTC."""
    if value is None:
        return None
    try:
        if len(value) == len("2027-01-01"):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"no time: {error}", context, option) from error
    if moment.tzinfo is None:
        stated = f"{value!r} has no offset from UTC, such as Z or +02:00"
        raise click.BadParameter(stated, context, option)
    return moment


@click.group()
def trust() -> None:
    """Write, change, show and check trust policies."""


@trust.command(short_help="Write a policy that trusts these public keys.")
@click.option(
    "--key",
    "keys",
    required=True,
    multiple=True,
    type=FILE,
    help="A public key to trust (.pub); may be given several times.",
)
@click.option(
    "--name", required=True, callback=_name, help='The bundle name, or a glob such as "team-*".'
)
@click.option(
    "--threshold", default=1, type=click.IntRange(min=1), help="Holders of keys that must sign."
)
@click.option(
    "--holder",
    "holders",
    multiple=True,
    help="Who holds the key; once for each --key, in their order.",
)
@click.option(
    "-o",
    "--output",
    default="trust.toml",
    show_default=True,
    type=FILE,
    help="The policy to write; an existing file is never overwritten.",
)
@command
def init(
    out: Output,
    keys: tuple[Path, ...],
    name: str,
    threshold: int,
    holders: tuple[str, ...],
    output: Path,
) -> None:
    """Write a policy that trusts these public keys for bundles of this name.

    \b
    aotc trust init --key ci.pub --name digits
    aotc trust init --key ci.pub --holder ci --key release.pub --holder release --threshold 2 \\
      --name digits
    """
    from aotc.bundle.trust.trust_text import write_policy

    ids = write_policy(output, name, keys, threshold, holders)
    notes = [_UNHELD] if threshold > 1 and not holders else []

    def text() -> None:
        say(f"wrote {output}: trusts {', '.join(k[:16] for k in ids)} for {name}")
        print_notes(notes)

    document = {"policy": str(output), "name": name, "threshold": threshold, "keys": ids}
    out.result({**document, "holders": [*holders], "notes": notes}, text)


@trust.command("add-key")
@click.argument("policy", type=FILE)
@click.option("--key", required=True, type=FILE, help="The public key to trust (.pub).")
@click.option("--certifier", is_flag=True, help="Trust its certificates, and nothing else of it.")
@click.option("--name", default="", help="What messages call it.")
@click.option("--holder", default="", help="Whose key it is; keys of one holder count once.")
@click.option(
    "--builder",
    "builders",
    multiple=True,
    metavar="ID",
    help="A builder whose builds it may describe; may be given several times.",
)
@click.option("--endorses-only", is_flag=True, help="It may describe no build.")
@click.option("--not-before", callback=_instant, metavar="TIME", help="Does not count before.")
@click.option("--not-after", callback=_instant, metavar="TIME", help="Does not count after.")
@command
def add_key(
    out: Output,
    policy: Path,
    key: Path,
    certifier: bool,
    name: str,
    holder: str,
    builders: tuple[str, ...],
    endorses_only: bool,
    not_before: datetime | None,
    not_after: datetime | None,
) -> None:
    """Trust one more public key; the rest of the policy stays as it is.

    \b
    aotc trust add-key trust.toml --key ci-2027.pub --name ci-2027 --holder ci \\
      --not-after 2028-01-01
    """
    from aotc.bundle.trust import trust_files

    if certifier and (holder or builders or endorses_only):
        raise click.UsageError("--holder, --builder and --endorses-only are not for certifiers")
    if builders and endorses_only:
        raise click.UsageError("--builder or --endorses-only, not both")
    table = "certifiers" if certifier else "keys"
    speaks_for = [*builders] if builders or endorses_only else None
    stated = {"name": name or None, "holder": holder or None, "builders": speaks_for}
    fields = {**stated, "not_before": not_before, "not_after": not_after}
    added, notes = trust_files.add_key(
        policy, key, table, {field: value for field, value in fields.items() if value is not None}
    )
    trusts = "trusts certificates of" if certifier else "trusts"

    def text() -> None:
        say(f"{policy} {trusts} {added.id}")
        print_notes(notes)

    document = {"policy": str(policy), "key": added.id, "table": table, **stated}
    out.result({**document, "notes": notes}, text)


@trust.command(short_help="Refuse keys, bundles or blobs from now on.")
@click.argument("policy", type=FILE)
@click.option("--key", "keys", multiple=True, metavar="FILE|ID", help="A public key, or its id.")
@click.option(
    "--root", "roots", multiple=True, metavar="BUNDLE|DIGEST", help="A bundle, or its root digest."
)
@click.option(
    "--since",
    callback=_instant,
    metavar="TIME",
    help="Revoke the keys for what was signed then or later, as timestamps say.",
)
@click.option("--blob", "blobs", multiple=True, metavar="DIGEST", help="A blob, in any bundle.")
@command
def revoke(
    out: Output,
    policy: Path,
    keys: tuple[str, ...],
    roots: tuple[str, ...],
    blobs: tuple[str, ...],
    since: datetime | None,
) -> None:
    """Refuse keys, bundles or blobs from now on, whoever signed; each option may be repeated.

    \b
    aotc trust revoke trust.toml --key ci.pub --root digits-1.0.0.aotb
    """
    if not (keys or roots or blobs):
        raise click.UsageError("name what to revoke: --key, --root or --blob")
    if since and not keys:
        raise click.UsageError("--since says when a key was revoked: name it with --key")

    from aotc.bundle.trust import trust_files
    from aotc.bundle.trust.trust_state import check_reachable, state_of

    changed = trust_files.revoke(policy, keys, roots, blobs, since)
    state = state_of(changed.policy, datetime.now(UTC), str(policy))
    left = [finding.found for finding in check_reachable(state, timedelta(), str(policy))]
    but = " that no timestamp dates back" if changed.policy.timestamp_authorities else ""
    notes = [f"too few keys count now, so every bundle is refused{but}: {found}" for found in left]

    def text() -> None:
        for kind, values in changed.added.items():
            for value in values:
                say(f"revoked  {kind[:-1]} {value}")
        for value in changed.already:
            say(f"already  {value}")
        print_notes(notes)

    revoked = {"policy": str(policy), "revoked": changed.added, "already": changed.already}
    out.result({**revoked, "notes": notes}, text)


@trust.command(short_help="Show the rules of a policy, and its keys.")
@click.argument("policy", type=FILE)
@command
def show(out: Output, policy: Path) -> None:
    """Show the rules of a policy, and its keys with their ids and whether they count now.

    \b
    aotc trust show trust.toml
    """
    from aotc.bundle.trust.trust_state import state_of
    from aotc.report.trust_report import policy_document, policy_lines
    from aotc_runtime.verification.policy_reader import read_policy

    state = state_of(read_policy(policy), datetime.now(UTC), str(policy))
    document = policy_document(str(policy), state)
    out.result(document, lambda: say(*policy_lines(document)))


@trust.command(short_help="Say whether a policy accepts anything, now and later.")
@click.argument("policy", type=FILE)
@click.argument("bundle", required=False, type=BUNDLE_FILE)
@click.option(
    "--within",
    default=30,
    show_default=True,
    type=click.IntRange(min=0, max=36_500),
    metavar="DAYS",
    help="How far ahead keys are looked after.",
)
@command
def check(out: Output, policy: Path, bundle: Path | None, within: int) -> int:
    """Say whether a policy can accept anything, now and some days ahead, and this bundle.

    For CI: fails while there is time to add a key, and warns about keys that end before. With a
    bundle, says which rule of the policy would refuse it; processor and memory are not asked.

    \b
    aotc trust check trust.toml digits-1.0.0.aotb --within 60
    """
    from aotc.bundle.trust.trust_state import check_policy

    checked = check_policy(policy, bundle, within)
    if checked.findings:
        report_findings(out, checked.findings, checked.exit_code, **checked.document)
        return checked.exit_code
    out.result({**checked.document, "findings": []}, lambda: say(*checked.lines))
    return 0
