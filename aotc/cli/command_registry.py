"""Every command, and every optional part of a command, by the place of its code.

The commands of the main line stand here. A distribution adds one by an entry point of the group
`aotc.commands`: named as the command, its value a click command. `HELP_SECTION` of the command's
module says under which heading of `aotc --help` it is listed. An option of a command of the main
line that an optional part serves is an entry point of the group `aotc.options`, named as the option
without its dashes. The optional commands of aotc itself are registered in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

CORE: dict[str, dict[str, str]] = {
    "Build": {
        "build": "aotc.cli.build_command:build",
        "targets": "aotc.cli.targets_command:targets",
    },
    "Gate and ship": {
        "verify": "aotc.cli.verify_command:verify",
    },
    "Sign and trust": {
        "keygen": "aotc.cli.keygen_command:keygen",
        "sign": "aotc.cli.sign_command:sign",
        "trust": "aotc.cli.trust_command:trust",
    },
    "Review": {
        "inspect": "aotc.cli.inspect_command:inspect",
    },
    "Run and measure": {
        "run": "aotc.cli.run_command:run",
    },
}
"""The commands of the main line by the headings of the help, in the order of their use."""

OTHER_SECTION = "Other commands"
"""The heading of commands whose module names none."""


class Commands(Mapping[str, click.Command]):
    """All commands by name, those of the main line first; a command's module is imported when it is
    asked for, and entry points are read when it is not one of the main line.
    """

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command
        for places in CORE.values():
            if name in places:
                command = EntryPoint(name, places[name], "aotc.commands").load()
                return command
        command = _registered("aotc.commands")[name].load()
        return command

    def __iter__(self) -> Iterator[str]:
        core = [name for places in CORE.values() for name in places]
        yield from core
        yield from (name for name in _registered("aotc.commands") if name not in core)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def sections(self) -> dict[str, list[str]]:
        """Return the names of all commands by the headings of the help."""
        found = {title: list(places) for title, places in CORE.items()}
        core = {name for names in found.values() for name in names}
        for name in self:
            if name not in core:
                module = sys.modules[getattr(self[name].callback, "__module__", __name__)]
                title = getattr(module, "HELP_SECTION", OTHER_SECTION)
                found.setdefault(title, []).append(name)
        return found


def optional(option: str) -> Any:
    """Import what serves an option. Raises click.UsageError where nothing is registered for it."""
    point = _registered("aotc.options").get(option.removeprefix("--"))
    if point is None:
        raise click.UsageError(f"{option} is not in this installation of aotc")
    return point.load()


@cache
def _registered(group: str) -> dict[str, EntryPoint]:
    """Entry points by name. Raises click.UsageError for a name that two distributions register."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group)):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise click.UsageError(
                f"{point.name} is registered twice in {group}: {other.value} and {point.value}"
            )
    return found
