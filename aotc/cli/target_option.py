"""`--target`, which shells complete."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem


def target_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the targets of the current folder's `targets` and the built-in ones, by prefix."""
    from pathlib import Path

    from aotc.compile.target_files import NATIVE, search_folders

    files = [path for folder in search_folders(Path.cwd()) for path in folder.glob("*.toml")]
    names = sorted({NATIVE, *(path.stem for path in files)})
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def target_option[F: Callable[..., object]](
    help: str, *, several: bool = False, required: bool = False
) -> Callable[[F], F]:
    """Return the decorator of `--target`, as `target`; as `targets` where several may be given."""
    names = ("--target", "targets" if several else "target")
    return click.option(
        *names, multiple=several, required=required, shell_complete=target_names, help=help
    )
