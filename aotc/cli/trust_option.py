"""The choice of commands that look into bundles: a policy has to accept them, or they are taken as
they are.
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


def refuse_both(trust: Path | None, untrusted: bool) -> None:
    """Raise click.UsageError where both options are given."""
    if trust and untrusted:
        raise click.UsageError("--trust and --untrusted exclude each other: ask a policy, or not")
