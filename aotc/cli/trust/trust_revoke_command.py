"""`aotc trust revoke`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.trust.time_option import instant
from aotc_runtime.base.rendering import say


@click.command(short_help="Refuse keys, bundles or blobs from now on.")
@click.argument("policy", type=click.Path(path_type=Path))
@click.option("--key", "keys", multiple=True, metavar="FILE|ID", help="A public key, or its id.")
@click.option(
    "--root", "roots", multiple=True, metavar="BUNDLE|DIGEST", help="A bundle, or its root digest."
)
@click.option(
    "--since",
    callback=instant,
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
