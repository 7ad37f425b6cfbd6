"""`aotc store`: `ls`, `prune` and `verify`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.command_output import Output, command
from aotc.cli.reference_options import PATH
from aotc_runtime.base.rendering import say

if TYPE_CHECKING:
    from aotc_serve.store import Store, StoredBundle

HELP_SECTION = "Gate and ship"


def _store_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--store",
        "folder",
        envvar="AOTC_STORE",
        type=PATH,
        metavar="DIR",
        help="The folder; default: $XDG_CACHE_HOME/aotc-store.",
    )(function)


@click.group(short_help="Show and tidy up what was fetched from registries.")
def store() -> None:
    """Show and tidy up what was fetched from registries."""


@store.command()
@_store_option
@command
def ls(out: Output, folder: Path | None) -> None:
    """List the bundles of a store, the one that was used last first.

    \b
    aotc store ls
    """
    from aotc.report.report_text import size

    there = _open(folder)
    found = there.bundles()
    document = {
        "folder": str(there.folder),
        "bytes": there.size_bytes(),
        "bundles": [_described(each) for each in found],
    }

    def text() -> None:
        for each in found:
            missing = f", without {', '.join(each.absent)}" if each.absent else ""
            say(f"{each.root.digest}  {size(each.size_bytes)}  used {_time(each)}{missing}")
        say(f"{there.folder}: {len(found)} bundles, {size(there.size_bytes())}")

    out.result(document, text)


@store.command()
@_store_option
@click.option("--limit", required=True, metavar="SIZE", help="How large it may be: 500 MB, 20 GiB.")
@command
def prune(out: Output, folder: Path | None, limit: str) -> int:
    """Remove the bundles that were used longest ago until the rest fits.

    What is loaded stays loaded. While somebody fetches, nothing is removed.

    \b
    aotc store prune --limit "20 GiB"
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
        "removed": [_described(each) for each in gone],
        "removed_bytes": removed,
        "bytes": there.size_bytes(),
    }
    what = f"removed {len(gone)} bundles, {size(removed)}; {size(there.size_bytes())} are left"
    out.result(document, lambda: say(what))
    return 0


@store.command()
@_store_option
@command
def verify(out: Output, folder: Path | None) -> None:
    """Hash every blob of a store, and remove what is damaged.

    It is fetched again when it is needed.

    \b
    aotc store verify
    """
    there = _open(folder)
    damaged, number = [], 0
    for digest, is_whole in there.verify():
        number += 1
        if not is_whole:
            damaged.append(digest)
    document = {"folder": str(there.folder), "blobs": number, "removed": damaged}
    lines = [*(f"removed {digest}" for digest in damaged), f"{number} blobs hashed"]
    out.result(document, lambda: say(*lines))


def _open(folder: Path | None) -> Store:
    from aotc_serve.store.reference_loading import store_at

    return store_at(folder)


def _described(bundle: StoredBundle) -> dict[str, Any]:
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
