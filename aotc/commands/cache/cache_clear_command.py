"""`aotc cache clear`."""

from __future__ import annotations

import click

from aotc.cli.cache_options import cache_option, require_store
from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say


@click.command()
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
