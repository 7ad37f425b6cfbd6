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
    return trust_option("A policy that has to accept the bundle.")(function)


def trust_option[F: Callable[..., object]](
    help: str, *, required: bool = False
) -> Callable[[F], F]:
    """`--trust`."""
    return click.option("--trust", required=required, type=click.Path(path_type=Path), help=help)


def refuse_both(trust: Path | None, untrusted: bool) -> None:
    """Raise click.UsageError where both options are given."""
    if trust and untrusted:
        raise click.UsageError("--trust and --untrusted exclude each other: ask a policy, or not")
