"""`--target`, which shells complete."""

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
    help: str, *, several: bool = False, required: bool = False, default: str | None = None
) -> Callable[[F], F]:
    """Add `--target`, as `target`; as `targets` if several may be given.

    `default` is the text that the help shows as the default.
    """
    return click.option(
        "--target",
        "targets" if several else "target",
        multiple=several,
        required=required,
        metavar="TARGET",
        shell_complete=target_names,
        show_default=default,
        help=help,
    )
