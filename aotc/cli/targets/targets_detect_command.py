"""`aotc targets detect`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def _named(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not NAME.fullmatch(value):
        raise click.BadParameter("a target's name has letters, digits, '.', '_' and '-' only")
    return value


@click.command()
@click.option(
    "--toml", "name", metavar="NAME", callback=_named, help="Print a target file of this name."
)
@command
def detect(out: Output, name: str | None) -> None:
    """Describe this host, and name the targets it can run.

    With --toml, the description is a target file for hosts like this one, without the features that
    no code is made of: `aotc targets detect --toml web > targets/web.toml`.
    """
    from aotc.compile.target_files import NATIVE, file_text, list_targets, target_of
    from aotc.pipeline.build_plan import resolve_target
    from aotc.report.report_text import print_target
    from aotc.report.targets_report import target_document

    host = resolve_target(NATIVE, Path.cwd(), NATIVE)
    if name is not None:
        file = file_text(host, name)
        out.result({"toml": file}, lambda: say(*file.splitlines()))
        return
    models, _ = list_targets(Path.cwd())
    runs = [
        path.stem
        for path, model in models.items()
        if model.platform == host.platform and set(target_of(model).features) <= set(host.features)
    ]

    def text() -> None:
        print_target(host)
        say(f"runs       {', '.join(runs) or 'none of the known targets'}")

    out.result({"host": target_document(host), "runs": runs}, text)
