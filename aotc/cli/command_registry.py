"""Registry of the commands, and of the options that optional code implements.

The commands of the core are listed here. A distribution adds a command by an entry point of the
group `aotc.commands`: its name is the command's, its value a click command. `HELP_SECTION` of the
command's module names its section in `aotc --help`. An option of a core command that optional code
implements is an entry point of the group `aotc.options`, named like the option without its dashes.
The optional commands of aotc itself are registered in the same way.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import click

from aotc.base.entry_points import find_points, load

CORE = {
    "build": "aotc.cli.build_command:build",
    "targets": "aotc.cli.targets_command:targets",
    "verify": "aotc.cli.verify_command:verify",
    "inspect": "aotc.cli.inspect_command:inspect",
    "run": "aotc.cli.run_command:run",
    "serve": "aotc.cli.serve_command:serve",
    "keygen": "aotc.cli.keygen_command:keygen",
    "sign": "aotc.cli.sign_command:sign",
    "trust": "aotc.cli.trust_command:trust",
}
"""Modules of the core commands, by name."""

MORE = "More"
"""The section of commands that name none."""

SECTIONS = {
    "Build": ("init", "build", "targets"),
    "Inspect and verify": ("verify", "inspect", "run"),
    "Ship": ("push", "pull", "serve"),
    "Keys and trust": ("keygen", "sign", "trust"),
}
"""Sections of the help with the commands of daily use, which come first if they are installed."""


class Commands(Mapping[str, click.Command]):
    """All commands by name, those of the core first.

    A command's module is imported on access; entry points are read if the core has no such command.
    """

    def __getitem__(self, name: str) -> click.Command:
        point = EntryPoint(name, CORE[name], "aotc.commands") if name in CORE else None
        command: click.Command = load(point or find_points("aotc.commands")[name])
        return command

    def __iter__(self) -> Iterator[str]:
        yield from CORE
        yield from (name for name in sorted(find_points("aotc.commands")) if name not in CORE)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def sections(self) -> dict[str, list[str]]:
        """Return the names of all commands by section of the help, in the order of the help."""
        found = {title: [n for n in daily if n in self] for title, daily in SECTIONS.items()}
        for name in sorted(set(self).difference(*found.values())):
            module = sys.modules[getattr(self[name].callback, "__module__", __name__)]
            found.setdefault(getattr(module, "HELP_SECTION", MORE), []).append(name)
        last = {MORE: found.pop(MORE, [])}
        return {title: names for title, names in (found | last).items() if names}


def beside(command: str, name: str) -> Any:
    """Import what the module of an optional command offers to commands of the core.

    Raises click.UsageError if there is no such command.
    """
    point = find_points("aotc.commands").get(command)
    if point is None:
        raise click.UsageError(f"`aotc {command}` is not in this installation of aotc")
    load(point)
    return getattr(sys.modules[point.module], name)


def optional(option: str) -> Any:
    """Import the implementation of an option. Raises click.UsageError if none is registered."""
    point = find_points("aotc.options").get(option.removeprefix("--"))
    if point is None:
        raise click.UsageError(f"{option} is not in this installation of aotc")
    return load(point)
