"""`aotc profiles`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.workshops.suggest.check_command import check
from aotc.workshops.suggest.suggest_command import suggest


@click.group(short_help="Choose shape profiles from observed traffic.")
def profiles() -> None:
    """Choose shape profiles from observed traffic, and hold a bundle to it."""


for _command in (suggest, check):
    profiles.add_command(_command)
