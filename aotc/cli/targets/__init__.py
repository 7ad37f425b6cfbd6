"""`aotc targets`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.cli.targets.targets_check_command import check
from aotc.cli.targets.targets_detect_command import detect
from aotc.cli.targets.targets_list_command import list_
from aotc.cli.targets.targets_show_command import show


@click.group(short_help="Show, check and describe machines to compile for.")
def targets() -> None:
    """Show, check and describe the machines that can be compiled for."""


for _command in (list_, show, detect, check):
    targets.add_command(_command)
