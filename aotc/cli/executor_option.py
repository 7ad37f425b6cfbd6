"""`--executor`: whose workers compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.command_registry import optional

if TYPE_CHECKING:
    from aotc.pipeline.build_backends import OpenCompilers


def executor_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--executor`, as `executor`."""
    return click.option(
        "--executor",
        metavar="URL",
        help="Compile on the workers of a Dask cluster: dask://HOST:PORT of its scheduler.",
    )(function)


@contextmanager
def compilers_of(url: str | None) -> Iterator[OpenCompilers]:
    """Where a build compiles: on the executor at a URL, which is closed when the block ends, or
    without a URL on this host. Raises UsageError.
    """
    if url is None:
        from aotc.pipeline.build_backends import on_this_host

        yield on_this_host
        return
    with optional("--executor")(url) as compilers:
        yield compilers
