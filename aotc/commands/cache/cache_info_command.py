"""`aotc cache info`."""

from __future__ import annotations

import click

from aotc.cli.cache_options import cache_option, require_store, size_option
from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say


@click.command()
@cache_option("The folder; default: $XDG_CACHE_HOME/aotc.")
@size_option
@command
def info(out: Output, place: str | None, cache_size: str | None) -> None:
    """Show where the cache is and how much it holds.

    What builds have made: captured programs, executables, results of parity.

    \b
    aotc cache info
    """
    store = require_store(place, cache_size)
    found = store.contents()
    document = {
        "folder": str(store.folder),
        "entries": found.entries,
        "bytes": found.bytes,
        "limit_bytes": store.limit,
    }

    def text() -> None:
        from aotc.report.report_text import size

        say(f"folder   {store.folder}")
        say(f"entries  {found.entries}")
        say(f"size     {size(found.bytes)} of {size(store.limit)}")

    out.result(document, text)
