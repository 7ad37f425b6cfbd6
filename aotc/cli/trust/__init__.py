"""`aotc trust`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.cli.trust.add_key import add_key
from aotc.cli.trust.check import check
from aotc.cli.trust.init import init
from aotc.cli.trust.revoke import revoke
from aotc.cli.trust.show import show


@click.group()
def trust() -> None:
    """Write, change, show and check trust policies."""


for _command in (init, add_key, revoke, show, check):
    trust.add_command(_command)
