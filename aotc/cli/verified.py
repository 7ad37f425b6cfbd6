"""The choice of commands that look into bundles: a policy has to accept them, or they are taken as
they are, which has to be said.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click


def verified_options[F: Callable[..., object]](function: F) -> F:
    """`--trust` and `--untrusted`."""
    function = click.option(
        "--untrusted",
        is_flag=True,
        help="Take what is there, signed or not; digests are checked all the same.",
    )(function)
    return click.option(
        "--trust",
        type=click.Path(path_type=Path),
        help="A policy that has to accept the bundle.",
    )(function)


def require_choice(trust: Path | None, untrusted: bool) -> None:
    """Refuse neither, and both."""
    if (trust is None) != untrusted:
        raise click.UsageError(
            "pass --trust for a policy that has to accept the bundle, or --untrusted to take it as "
            "it is"
        )
