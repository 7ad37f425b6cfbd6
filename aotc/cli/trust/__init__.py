"""`aotc trust`: its commands, one module each."""

from __future__ import annotations

import click

from aotc.cli.trust.trust_add_key_command import add_key
from aotc.cli.trust.trust_check_command import check
from aotc.cli.trust.trust_init_command import init
from aotc.cli.trust.trust_revoke_command import revoke
from aotc.cli.trust.trust_show_command import show


@click.group()
def trust() -> None:
    """Write, change, show and check trust policies."""


for _command in (init, add_key, revoke, show, check):
    trust.add_command(_command)
