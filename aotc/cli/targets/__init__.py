"""`aotc targets`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.cli.targets.check import check
from aotc.cli.targets.detect import detect
from aotc.cli.targets.list import list_
from aotc.cli.targets.show import show


@click.group(short_help="Show, check and describe machines to compile for.")
def targets() -> None:
    """Show, check and describe the machines that can be compiled for."""


for _command in (list_, show, detect, check):
    targets.add_command(_command)
