"""Options that take versions of packages."""

import re
from collections.abc import Callable

import click

VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,4}((a|b|rc|\.dev|\.post)\d{1,9})?", re.ASCII)


def versions(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Reject values that are not versions.

    They become names of folders and arguments of an installer, and a misspelt version would be
    reported as an unknown jaxlib.
    """
    for value in values:
        if not VERSION.fullmatch(value):
            raise click.BadParameter(
                f"{value!r} is not a version, such as 0.12.0.", context, option
            )
    return values


def jaxlib_option[F: Callable[..., object]](help: str) -> Callable[[F], F]:
    """Add `--jaxlib`, as `jaxlibs`."""
    return click.option(
        "--jaxlib", "jaxlibs", multiple=True, callback=versions, metavar="VERSION", help=help
    )
