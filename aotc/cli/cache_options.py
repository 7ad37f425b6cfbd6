"""`--cache` and `--cache-size`: where commands find what earlier builds made."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from aotc.pipeline.cache.cache_store import LocalStore

VARIABLE = "AOTC_CACHE"


def cache_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--cache`, as `place`."""
    return click.option("--cache", "place", envvar=VARIABLE, metavar="DIR|off", help=help)


def size_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--cache-size`, as `cache_size`."""
    return click.option(
        "--cache-size",
        envvar=f"{VARIABLE}_SIZE",
        metavar="SIZE",
        help="How large it may become: 500 MB, 20 GiB; default: 10 GiB.",
    )(function)


def store_of(place: str | None, cache_size: str | None) -> LocalStore | None:
    """The local cache of these options; None if it is off. Raises UsageError."""
    from aotc.pipeline.cache.cache_folder import OFF, open_store, size_of

    if place == OFF:
        size_of(cache_size)
        return None
    if place and "://" in place:
        raise click.UsageError("--cache names a folder; for a URL there is --remote-cache")
    return open_store(place or None, cache_size, os.environ)


def require_store(place: str | None, cache_size: str | None) -> LocalStore:
    """The local cache of these options, for commands that need one. Raises UsageError, and
    click.UsageError if it is off.
    """
    store = store_of(place, cache_size)
    if store is None:
        raise click.UsageError("the cache is off: name one with --cache DIR")
    return store
