"""`aotc store`: the local artifact store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.command_output import DIR, HELP_OPTION, Output, command
from aotc_runtime.base.rendering import say

if TYPE_CHECKING:
    from aotc_serve.store import Store, StoredBundle

HELP_SECTION = "Ship"


_store_option = click.option(
    "--store",
    "folder",
    envvar="AOTC_STORE",
    show_envvar=True,
    type=DIR,
    show_default="$XDG_CACHE_HOME/aotc-store",
    help="Artifact store directory",
)


@click.group()
@HELP_OPTION
def store() -> None:
    """Manage the local artifact store."""


@store.command()
@_store_option
@command
def ls(out: Output, folder: Path | None) -> None:
    """List the bundles in the artifact store.

    The most recently used bundle comes first.

    \b
    aotc store ls
    """
    from aotc.report.report_text import size

    there = _open(folder)
    found = there.bundles()
    document = {
        "folder": str(there.folder),
        "bytes": there.size_bytes(),
        "bundles": [_describe(each) for each in found],
    }

    def text() -> None:
        for each in found:
            missing = f", without {', '.join(each.absent)}" if each.absent else ""
            say(f"{each.root.digest}  {size(each.size_bytes)}  used {_time(each)}{missing}")
        say(f"{there.folder}: {len(found)} bundles, {size(there.size_bytes())}")

    out.result(document, text)


@store.command()
@_store_option
@click.option("--limit", required=True, metavar="SIZE", help="Maximum size of the store")
@command
def prune(out: Output, folder: Path | None, limit: str) -> None:
    """Delete the least recently used bundles.

    Deletes until the store is within --limit. Bundles that are loaded stay usable.

    \b
    aotc store prune --limit "20 GiB"

    Exit code 7 if another process is fetching into the store; nothing is deleted then.
    """
    from aotc.base.byte_sizes import bytes_of
    from aotc.base.errors import refusal
    from aotc.report.report_text import size

    most = bytes_of(limit)
    if most is None:
        raise click.UsageError(f"--limit {limit!r} is no size: write 500 MB or 20 GiB")
    there = _open(folder)
    done = there.prune(most)
    if done is None:
        raise refusal("AOTC-E560", str(there.folder), "", cause="artifact-store-is-in-use")
    gone, removed = done
    document = {
        "folder": str(there.folder),
        "removed": [_describe(each) for each in gone],
        "removed_bytes": removed,
        "bytes": there.size_bytes(),
    }
    what = f"removed {len(gone)} bundles, {size(removed)}; {size(there.size_bytes())} are left"
    out.result(document, lambda: say(what))


@store.command()
@_store_option
@command
def verify(out: Output, folder: Path | None) -> None:
    """Check all stored blobs and delete corrupt ones.

    Deleted blobs are fetched again when they are needed.

    \b
    aotc store verify
    """
    there = _open(folder)
    checked = list(there.verify())
    damaged = [digest for digest, is_whole in checked if not is_whole]
    document = {"folder": str(there.folder), "blobs": len(checked), "removed": damaged}
    lines = [*(f"removed {digest}" for digest in damaged), f"{len(checked)} blobs hashed"]
    out.result(document, lambda: say(*lines))


def _open(folder: Path | None) -> Store:
    from aotc_serve.store.reference_loading import store_at

    return store_at(folder)


def _describe(bundle: StoredBundle) -> dict[str, Any]:
    return {
        "root_digest": bundle.root.digest,
        "targets": list(bundle.targets),
        "absent": list(bundle.absent),
        "attestations": len(bundle.attestations),
        "size_bytes": bundle.size_bytes,
        "used": _time(bundle),
    }


def _time(bundle: StoredBundle) -> str:
    return datetime.fromtimestamp(bundle.used, UTC).isoformat(timespec="seconds")
