"""`aotc profiles`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.commands.profiles.profiles_check_command import check
from aotc.commands.profiles.profiles_suggest_command import suggest

HELP_SECTION = "Run and measure"


@click.group(short_help="Choose shape profiles from observed traffic.")
def profiles() -> None:
    """Choose shape profiles from observed traffic, and hold a bundle to it."""


for _command in (suggest, check):
    profiles.add_command(_command)
