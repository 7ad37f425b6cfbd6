"""`aotc cache`: info, prune and clear."""

from __future__ import annotations

import click

from aotc.cli.cache_options import cache_option, require_store, size_option
from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say

HELP_SECTION = "Build"


@click.group(short_help="Show and tidy up what builds have kept for later ones.")
def cache() -> None:
    """Show and tidy up what builds have kept for later ones."""


@cache.command()
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


@cache.command()
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


@cache.command()
@cache_option("The folder; default: $XDG_CACHE_HOME/aotc.")
@command
def clear(out: Output, place: str | None) -> None:
    """Remove everything from the cache.

    The next build of every manifest is a clean one. Builds that run meanwhile are not harmed.

    \b
    aotc cache clear
    """
    from aotc.pipeline.cache.cache_folder import require_removed

    store = require_store(place, None)
    removed = store.clear()
    require_removed(store)
    document = {
        "folder": str(store.folder),
        "removed_entries": removed.entries,
        "removed_bytes": removed.bytes,
    }
    out.result(document, lambda: say(f"removed {removed.entries} entries, {removed.bytes} bytes"))
