"""`aotc diff`."""

import sys
from functools import partial
from pathlib import Path
from shutil import get_terminal_size

import click

from aotc.cli import reference_options
from aotc.cli.command_output import Output, command

HELP_SECTION = "Inspect and verify"


@click.command()
@click.argument(
    "before", type=reference_options.BUNDLE_REFERENCE, help=reference_options.SOURCE_HELP
)
@click.argument(
    "after", type=reference_options.BUNDLE_REFERENCE, help=reference_options.SOURCE_HELP
)
@reference_options.trust_option("Trust policy that must accept both bundles")
@click.option(
    "--fail-on",
    "rules",
    multiple=True,
    metavar="RULE",
    show_default="any",
    help="Differences that fail the command (repeatable)",
)
@click.option(
    "--lines",
    type=click.IntRange(min=0),
    show_default="60, cut to the terminal",
    metavar="N",
    help="Maximum diff lines per module",
)
@reference_options.fetching_options
@command
def diff(
    out: Output,
    before: reference_options.BundleReference,
    after: reference_options.BundleReference,
    trust: Path | None,
    rules: tuple[str, ...],
    lines: int | None,
    full: bool,
    ca: Path | None,
) -> int:
    """Compare two bundles.

    Shows what changed in names, sources, toolchain, weights, modules, and the size, memory and cost
    of every executable. Signatures are checked only with --trust. A RULE is one of:

    \b
    any, none         any difference; nothing
    a kind            identity, targets, toolchain, weights, assets, interface, profiles,
                      module, operations, executable, compilation, placement, fixture,
                      parity, metrics, precision, coverage, evidence
    a number          artifact_size, executable_size, module_size, code,
                      temp_memory, call_memory, flops, transcendentals,
                      bytes_accessed, kernels, library_steps, custom_calls,
                      fusions, ulp
    a limit           flops>+5%, temp_memory>+64kB, fusions<-2

    \b
    aotc diff released.aotb new.aotb --fail-on module,weights --fail-on "flops>+5%"

    Exit code 9 if a difference matches a rule.
    """
    from datetime import UTC, datetime

    from aotc.base.errors import BudgetExceededError
    from aotc.bundle.read.bundle_review import review
    from aotc.commands.diff.bundle_diff import diff as compare
    from aotc.commands.diff.diff_rules import parse_rules, violations
    from aotc.commands.diff.diff_text import diff_document, diff_lines
    from aotc_runtime.verification.policy_reader import read_policy

    wanted = parse_rules(rules)
    policy, now = read_policy(trust) if trust else None, datetime.now(UTC)
    looking = partial(reference_options.open_with_notes, out, policy=policy, full=full, ca=ca)
    with looking(before) as old, looking(after) as new:
        one, two = (review(each.source, policy, now, each.unread) for each in (old, new))
        found = compare(one, two, lines_max=60 if lines is None else lines)
    findings = tuple(violations(wanted, found))
    document = diff_document(found)
    document["weights_hashed"] = not (old.unread or new.unread)
    is_cut = lines is None and sys.stdout.isatty()
    width = get_terminal_size().columns if is_cut else None
    return out.verdict(document, diff_lines(found, width), findings, BudgetExceededError.exit_code)
