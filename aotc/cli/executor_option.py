"""`--executor`: whose workers compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from concurrent.futures import Executor


def executor_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--executor`, as `executor`."""
    return click.option(
        "--executor",
        metavar="URL",
        help="Compile on the workers of a Dask cluster: dask://HOST:PORT of its scheduler.",
    )(function)


@contextmanager
def executor_of(url: str | None) -> Iterator[Executor | None]:
    """The executor at a URL, closed when the block ends; None without a URL. Raises UsageError."""
    if url is None:
        yield None
        return
    from aotc.pipeline.distributed.dask_cluster import connect

    with connect(url) as executor:
        yield executor
