"""`aotc cache`: the build cache."""

import click

from aotc.cli.cache_options import cache_option, require_store, size_option
from aotc.cli.command_output import HELP_OPTION, Output, command
from aotc_runtime.base.rendering import say


@click.group()
@HELP_OPTION
def cache() -> None:
    """Manage the build cache."""


@cache.command()
@cache_option
@size_option
@command
def info(out: Output, place: str | None, cache_size: str | None) -> None:
    """Show the build cache's location and size.

    The cache holds traced programs, executables, and results of numerical checks.

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
@cache_option
@command
def clear(out: Output, place: str | None) -> None:
    """Delete all entries from the build cache.

    The next builds start from nothing. Builds that are running are not affected.

    \b
    aotc cache clear
    """
    from aotc.pipeline.cache.cache_folder import require_removed
    from aotc.report.report_text import size

    store = require_store(place, None)
    removed, left = store.clear(), store.contents()
    require_removed(store)
    document = {
        "folder": str(store.folder),
        "removed_entries": removed.entries,
        "removed_bytes": removed.bytes,
        "entries": left.entries,
        "bytes": left.bytes,
    }
    what = f"removed {removed.entries} entries, {size(removed.bytes)}"
    out.result(document, lambda: say(f"{what}; {size(left.bytes)} are left"))
