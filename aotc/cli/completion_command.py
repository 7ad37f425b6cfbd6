"""`aotc completion`, and the completions of a command line for shells."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from aotc.cli.command_output import Output, command
from aotc.cli.main import COMPLETE

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), help="Shell that reads the script")
@command
def completion(out: Output, shell: str) -> None:
    """Print a shell completion script.

    The script completes commands, options, files and names of targets.

    \b
    aotc completion bash > ~/.local/share/bash-completion/completions/aotc
    aotc completion zsh > "${fpath[1]}/_aotc"
    aotc completion fish > ~/.config/fish/completions/aotc.fish
    """
    from aotc.cli.command_group import cli

    kind = get_completion_class(shell)
    assert kind is not None, "click completes these shells"
    source = kind(cli, {}, "aotc", COMPLETE).source()
    document = {"shell": shell, "source": source}
    out.result(document, lambda: sys.stdout.writelines([source, "\n"]))


def complete(instruction: str) -> int:
    """Answer a shell that completes a command line, whose words are in its own variables.

    instruction: such as `bash_complete`. Returns the exit code.
    """
    from aotc.cli.command_group import cli

    try:
        return shell_complete(cli, {}, "aotc", COMPLETE, instruction)
    except (KeyError, ValueError):  # not called by a shell: its variables are missing or malformed
        return 1


def target_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of targets that begin so, in the current folder's `targets` and the built-in ones."""
    from pathlib import Path

    from aotc.compile.target_files import NATIVE, search_folders

    files = [path for folder in search_folders(Path.cwd()) for path in folder.glob("*.toml")]
    names = sorted({NATIVE, *(path.stem for path in files)})
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def target_option[F: Callable[..., object]](
    help: str, *, several: bool = False, required: bool = False, default: str | None = None
) -> Callable[[F], F]:
    """Add `--target`, as `target`; as `targets` if several may be given.

    Args:
        default: Text that the help shows as the default.
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
