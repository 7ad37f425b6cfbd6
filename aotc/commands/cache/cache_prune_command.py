"""`aotc cache prune`."""

from __future__ import annotations

import click

from aotc.cli.cache_options import cache_option, require_store, size_option
from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say


@click.command()
@cache_option("The folder; default: $XDG_CACHE_HOME/aotc.")
@size_option
@command
def prune(out: Output, place: str | None, cache_size: str | None) -> None:
    """Remove what was not used for the longest time, until a size holds.

    Builds do so by themselves, to the size that they are given.

    \b
    aotc cache prune --cache-size "1 GiB"
    """
    from aotc.pipeline.cache.cache_folder import require_removed

    store = require_store(place, cache_size)
    removed, left = store.trim(), store.contents()
    require_removed(store)
    document = {
        "folder": str(store.folder),
        "removed_entries": removed.entries,
        "removed_bytes": removed.bytes,
        "entries": left.entries,
        "bytes": left.bytes,
    }

    def text() -> None:
        from aotc.report.report_text import size

        what = f"removed {removed.entries} entries, {size(removed.bytes)}"
        say(f"{what}; {size(left.bytes)} are left")

    out.result(document, text)
