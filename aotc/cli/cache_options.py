"""`--cache` and `--cache-size`: options of the build cache."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from aotc.pipeline.cache.cache_store import LocalStore

VARIABLE = "AOTC_CACHE"


cache_option = click.option(
    "--cache",
    "place",
    envvar=VARIABLE,
    show_envvar=True,
    metavar="DIR|off",
    show_default="$XDG_CACHE_HOME/aotc",
    help="Build cache directory",
)

size_option = click.option(
    "--cache-size",
    envvar=f"{VARIABLE}_SIZE",
    show_envvar=True,
    metavar="SIZE",
    show_default="10 GiB",
    help="Maximum size of the cache",
)


def store_of(place: str | None, cache_size: str | None) -> LocalStore | None:
    """Return the local cache of these options; None if it is off. Raises UsageError."""
    from aotc.pipeline.cache.cache_folder import OFF, open_store, size_of

    if place == OFF:
        size_of(cache_size)
        return None
    if place and "://" in place:
        raise click.UsageError("--cache names a folder; for a URL there is --remote-cache")
    return open_store(place or None, cache_size, os.environ)


def require_store(place: str | None, cache_size: str | None) -> LocalStore:
    """Return the local cache of these options, for commands that need one.

    Raises UsageError or click.UsageError if the folder is unusable, or the cache is off.
    """
    store = store_of(place, cache_size)
    if store is None:
        raise click.UsageError("the cache is off: name one with --cache DIR")
    return store
