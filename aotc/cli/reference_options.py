"""What commands that speak to registries ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click


def ca_option[F: Callable[..., object]](function: F) -> F:
    """`--ca`."""
    return click.option(
        "--ca",
        type=click.Path(path_type=Path),
        help="PEM certificates that the registry's has to be signed with, in place of this host's.",
    )(function)
