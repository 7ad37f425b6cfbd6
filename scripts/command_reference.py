"""Writes docs/reference/commands.md from the commands: `python -m scripts.command_reference`."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from aotc.cli.command_group import COMMANDS, cli
from aotc_runtime import __main__ as runtime

COMMON = ("--json", "--verbose", "--help")
"""Options of every command, which the page describes once."""

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"

HEAD = """\
# Commands

`make docs` generates this page from the commands; `aotc COMMAND --help` shows the same texts.

- **Options of every command**: `--json` prints the result as JSON, `-v` (`--verbose`) shows more
  detail and tracebacks of errors, `-h` (`--help`) shows the help. They follow the command:
  `aotc verify digits.aotb --trust trust.toml --json`.
- **stdout** holds the result. With `--json` it holds exactly one JSON document: `"ok": true` and
  the result, or `"ok": false`, the `exit_code` and the `findings`, each with `code`, `where`,
  `expected`, `found` and `hint`.
- **stderr** holds errors, notes and progress; with `--json` no progress. Output of jaxlib and XLA
  appears only with `-v`.
- **Signals**: Ctrl-C, SIGTERM and SIGHUP end a command and its child processes, and remove its
  temporary files. Existing files stay as they were.
- **`XLA_FLAGS`** and `TF_XLA_FLAGS` are ignored, with a note: compiler options belong in target
  files.
- **Exit codes** and error codes are listed in [errors.md](errors.md#exit-codes); both are
  stable.
- **Shell completion**: `eval "$(_AOTC_COMPLETE=bash_source aotc)"` in `~/.bashrc`; `zsh_source`
  and `fish_source` for other shells.
- **Extras** such as `channel` are installed from a clone of the repository:
  `pip install ./runtime ./runtime/serve '.[channel]'`.
"""

RUNTIME_HEAD = """
## aotc-runtime

For hosts that have only the runtime. `aotc-runtime verify` prints the same results as
`aotc verify`, with the same exit codes;
[Serve](../guides/serve.md#a-server) describes the server. Use `aotc-runtime` or
`python -P -m aotc_runtime`: without `-P`, Python imports modules from the current directory first.
"""

type Row = tuple[str, str, str]
"""Name, meaning and default of an argument or option."""


def page() -> str:
    """Return the whole page."""
    return "".join([HEAD, *_contents(), *_toolchain(), RUNTIME_HEAD, *_runtime()])


def is_ours(command: click.Command) -> bool:
    """Return whether a command is part of aotc; other distributions may be installed beside it."""
    return getattr(command.callback, "__module__", "aotc.").startswith("aotc.")


def _contents() -> Iterator[str]:
    yield "\n| section | commands |\n|---|---|\n"
    for title, names in COMMANDS.sections().items():
        links = [f"[{name}](#aotc-{name})" for name in names if is_ours(COMMANDS[name])]
        if links:
            yield f"| {title} | {', '.join(links)} |\n"


def _toolchain() -> Iterator[str]:
    root = click.Context(cli, info_name="aotc")
    for names in COMMANDS.sections().values():
        for name in names:
            if is_ours(COMMANDS[name]):
                yield from _section(COMMANDS[name], root, "##")


def _section(command: click.Command, parent: click.Context, heading: str) -> Iterator[str]:
    context = command.context_class(command, info_name=command.name, parent=parent)
    yield f"\n{heading} {context.command_path}\n\n"
    if isinstance(command, click.Group):
        yield from _prose(command)
        for name in command.list_commands(context):
            yield from _section(command.commands[name], context, f"{heading}#")
        return
    usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
    yield f"```text\n{usage}\n```\n\n"
    yield from _prose(command)
    rows: list[Row] = []
    for each in command.params:
        if isinstance(each, click.Option):
            if each.opts[-1] not in COMMON:
                rows.append(_option(each, context))
        else:
            rows.append((each.make_metavar(context), each.help or "", ""))
    yield from _table(rows)


def _prose(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs of a help text; those that keep their lines become code blocks."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        separator = "\n" if number else ""
        if paragraph.startswith("\b\n"):
            lines = paragraph.removeprefix("\b\n")
            language = "sh" if lines.startswith("aotc ") else "text"
            yield f"{separator}```{language}\n{lines}\n```\n"
        else:
            yield f"{separator}{' '.join(paragraph.split())}\n"


def _option(option: click.Option, context: click.Context) -> Row:
    extra = option.get_help_extra(context)
    stated = extra.get("default", "")
    if isinstance(option.show_default, str):
        stated = option.show_default
    variables = [f"`${name}`" for name in extra.get("envvars", ())]
    notes = ["required"] if option.required else [*variables, *([stated] if stated else [])]
    return option.get_help_spec(context), option.help or "", ", else ".join(notes)


def _table(rows: list[Row]) -> Iterator[str]:
    if rows:
        yield "\n| argument | meaning | default |\n|---|---|---|\n"
    for row in rows:
        name, meaning, default = (cell.replace("|", "\\|") for cell in row)
        yield f"| `{name}` | {meaning} | {default} |\n".replace("|  |", "| |")


def _runtime() -> Iterator[str]:
    parser = runtime._parser(runtime._others([]))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _runtime_section(command)


def _runtime_section(command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"\n### {command.prog}\n\n{command.description}\n"
    rows: list[Row] = []
    for action in command._actions:
        if action.option_strings[-1:] and action.option_strings[-1] in COMMON:
            continue
        meaning, _, default = (action.help or "").partition(" (default: ")
        values = "|".join(action.choices) if action.choices else action.metavar
        value = f" {values}" if values and action.nargs != 0 else ""
        name = f"{', '.join(action.option_strings)}{value}".strip()
        is_required = action.option_strings and action.required
        rows.append((name, meaning, "required" if is_required else default.removesuffix(")")))
    yield from _table(rows)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
