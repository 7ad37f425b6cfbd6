"""`aotc trust show`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say


@click.command(short_help="Show the rules of a policy, and its keys.")
@click.argument("policy", type=click.Path(path_type=Path))
@command
def show(out: Output, policy: Path) -> None:
    """Show the rules of a policy, and its keys with their ids and whether they count now.

    \b
    aotc trust show trust.toml
    """
    from datetime import UTC, datetime

    from aotc.bundle.trust.trust_state import state_of
    from aotc.report.trust_report import policy_document, policy_lines
    from aotc_runtime.verification.policy_reader import read_policy

    state = state_of(read_policy(policy), datetime.now(UTC), str(policy))
    document = policy_document(str(policy), state)
    out.result(document, lambda: say(*policy_lines(document)))
