"""`aotc trust`: trust policies."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import click

from aotc.cli.command_output import FILE, HELP_OPTION, Output, command
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP
from aotc_runtime.base.rendering import say

_UNHELD = (
    "keys without a holder count separately: name their holders (--holder, or holder in the "
    "policy) before you add another key of one of them"
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


def _utf8[T: str | tuple[str, ...]](context: click.Context, option: click.Parameter, value: T) -> T:
    """Return texts that a policy can hold."""
    for text in (value,) if isinstance(value, str) else value:
        if text.encode(errors="ignore").decode() != text:
            raise click.BadParameter(f"{text!a} is not UTF-8", context, option)
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


_policy_argument = click.argument("policy", type=FILE, help="Trust policy (.toml)")


@click.group()
@HELP_OPTION
def trust() -> None:
    """Manage trust policies."""


@trust.command()
@click.option(
    "--key",
    "keys",
    required=True,
    multiple=True,
    type=FILE,
    help="Public key to trust (.pub, repeatable)",
)
@click.option(
    "--name", required=True, callback=_name, metavar="GLOB", help="Bundle name, or a glob of names"
)
@click.option(
    "--threshold",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of holders that must sign",
)
@click.option(
    "--holder",
    "holders",
    multiple=True,
    callback=_utf8,
    metavar="NAME",
    help="Holder of each key, in order",
)
@click.option(
    "-o", "--output", default="trust.toml", show_default=True, type=FILE, help="Output file (.toml)"
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
    """Create a trust policy.

    The policy accepts bundles of this name that enough holders of these keys signed. Keys without
    a holder count separately. An existing file is never overwritten.

    \b
    aotc trust init --key ci.pub --name digits
    aotc trust init --key ci.pub --holder ci --key release.pub --holder release --threshold 2 \\
      --name digits
    """
    from aotc.bundle.trust.trust_text import write_policy

    ids = write_policy(output, name, keys, threshold, holders)
    document = {"policy": str(output), "name": name, "threshold": threshold, "keys": ids}
    line = f"wrote {output}: trusts {', '.join(k[:16] for k in ids)} for {name}"
    notes = [_UNHELD] if threshold > 1 and not holders else []
    out.result_and_notes({**document, "holders": [*holders]}, [line], notes)


@trust.command("add-key")
@_policy_argument
@click.option("--key", required=True, type=FILE, help="Public key to add (.pub)")
@click.option("--certifier", is_flag=True, help="Accept certificates by this key, nothing else")
@click.option("--name", default="", callback=_utf8, metavar="NAME", help="Key name for messages")
@click.option("--holder", default="", callback=_utf8, metavar="NAME", help="Holder of the key")
@click.option(
    "--builder",
    "builders",
    multiple=True,
    callback=_utf8,
    metavar="URI",
    help="Builder the key may describe (repeatable)",
)
@click.option("--endorses-only", is_flag=True, help="Accept no build provenance by this key")
@click.option(
    "--not-before", callback=_instant, metavar="TIME", help="Start of the validity period"
)
@click.option("--not-after", callback=_instant, metavar="TIME", help="End of the validity period")
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
    """Add a public key to a trust policy.

    Comments and order of the file are kept. Keys of one holder count once. TIME is a timestamp such
    as 2027-01-01T00:00:00Z, or a date for midnight UTC.

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
    document = {"policy": str(policy), "key": added.id, "table": table, **stated}
    out.result_and_notes(document, [f"{policy} {trusts} {added.id}"], notes)


@trust.command()
@_policy_argument
@click.option(
    "--key", "keys", multiple=True, metavar="FILE|ID", help="Public key or key id (repeatable)"
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="BUNDLE|DIGEST",
    help="Bundle or root digest (repeatable)",
)
@click.option(
    "--since", callback=_instant, metavar="TIME", help="Revoke the keys from this time on"
)
@click.option(
    "--blob", "blobs", multiple=True, metavar="DIGEST", help="Digest of a blob (repeatable)"
)
@command
def revoke(
    out: Output,
    policy: Path,
    keys: tuple[str, ...],
    roots: tuple[str, ...],
    blobs: tuple[str, ...],
    since: datetime | None,
) -> None:
    """Revoke keys, bundles, or blobs.

    The policy then rejects them whatever signatures they have. For a key in the policy, 16 digits
    of its id are enough. --since keeps signatures that a timestamp proves to be older.

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
    lines = [f"revoked  {kind[:-1]} {each}" for kind, ids in changed.added.items() for each in ids]
    lines += [f"already  {value}" for value in changed.already]
    revoked = {"policy": str(policy), "revoked": changed.added, "already": changed.already}
    out.result_and_notes(revoked, lines, notes)


@trust.command()
@_policy_argument
@command
def show(out: Output, policy: Path) -> None:
    """Show a trust policy and its keys.

    Shows the rules, and each key's id, holder, builders and state: valid, not yet valid, expired or
    revoked.

    \b
    aotc trust show trust.toml
    """
    from aotc.bundle.trust.trust_state import state_of
    from aotc.report.trust_report import policy_document, policy_lines
    from aotc_runtime.verification.policy_reader import read_policy

    state = state_of(read_policy(policy), datetime.now(UTC), str(policy))
    document = policy_document(str(policy), state)
    out.result(document, lambda: say(*policy_lines(document)))


@trust.command()
@_policy_argument
@click.argument("bundle", required=False, type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.option(
    "--within",
    default=30,
    show_default=True,
    type=click.IntRange(min=0, max=36_500),
    metavar="DAYS",
    help="Days to look ahead",
)
@command
def check(out: Output, policy: Path, bundle: Path | None, within: int) -> int:
    """Check that a trust policy can accept bundles.

    Fails if too few keys are valid, now or within the given days, so that CI can warn before keys
    expire. With BUNDLE, also checks that the policy accepts it; the host is not checked.

    \b
    aotc trust check trust.toml digits-1.0.0.aotb --within 60

    Exit code 5 if the policy accepts nothing, or not this bundle.
    """
    from aotc.bundle.trust.trust_state import check_policy

    checked = check_policy(policy, bundle, within)
    lines = () if checked.findings else checked.lines
    return out.verdict(checked.document, lines, checked.findings, checked.exit_code)
