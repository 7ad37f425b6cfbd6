"""`aotc cache`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.cli.cache.clear import clear
from aotc.cli.cache.info import info
from aotc.cli.cache.prune import prune


@click.group(short_help="Show and tidy up what builds have kept for later ones.")
def cache() -> None:
    """Show and tidy up what builds have kept for later ones."""


for _command in (info, prune, clear):
    cache.add_command(_command)
