"""`aotc profiles`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.cli.profiles.check import check
from aotc.cli.profiles.suggest import suggest


@click.group(short_help="Choose shape profiles from observed traffic.")
def profiles() -> None:
    """Choose shape profiles from observed traffic, and hold a bundle to it."""


for _command in (suggest, check):
    profiles.add_command(_command)
