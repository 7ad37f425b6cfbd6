"""`aotc cache`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.commands.cache.cache_clear_command import clear
from aotc.commands.cache.cache_info_command import info
from aotc.commands.cache.cache_prune_command import prune

HELP_SECTION = "Build"


@click.group(short_help="Show and tidy up what builds have kept for later ones.")
def cache() -> None:
    """Show and tidy up what builds have kept for later ones."""


for _command in (info, prune, clear):
    cache.add_command(_command)
