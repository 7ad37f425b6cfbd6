"""`aotc completion`, and the answers to a shell that completes a command line."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from aotc.cli.command_output import Output, command
from aotc.cli.main import COMPLETE

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the completion function of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@command
def completion(out: Output, shell: str) -> None:
    """Print the completion function of a shell, to be read at its start.

    \b
    bash:  aotc completion bash > ~/.local/share/bash-completion/completions/aotc
    zsh:   aotc completion zsh > "${fpath[1]}/_aotc"
    fish:  aotc completion fish > ~/.config/fish/completions/aotc.fish
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
    help: str, *, several: bool = False, required: bool = False
) -> Callable[[F], F]:
    """`--target`, as `target`; as `targets` where several may be given."""
    names = ("--target", "targets" if several else "target")
    return click.option(
        *names, multiple=several, required=required, shell_complete=target_names, help=help
    )
