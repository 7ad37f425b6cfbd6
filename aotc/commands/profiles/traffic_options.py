"""`--traffic` and `--entry`: which calls were observed, of what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def traffic_options[F: Callable[..., Any]](function: F) -> F:
    """The two options, as `log` and `entry`."""
    function = click.option("--entry", help="The entry point; needed if several have dimensions.")(
        function
    )
    return click.option(
        "--traffic",
        "log",
        required=True,
        type=click.Path(path_type=Path),
        help="JSON lines, CSV or a saved bundle.report(), also gzipped.",
    )(function)
