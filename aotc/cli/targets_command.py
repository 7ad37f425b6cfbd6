"""`aotc targets`: the machines to compile for."""

import re
from pathlib import Path

import click
from msgspec import to_builtins

from aotc.base.errors import BuildManifestError, CompileError
from aotc.cli.command_output import HELP_OPTION, Output, command, report_findings
from aotc.cli.target_option import target_names
from aotc_runtime.base.rendering import render, say

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")

TARGET_HELP = "Target name, or path of a target file"


def _check_name(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not NAME.fullmatch(value):
        raise click.BadParameter("a target's name has letters, digits, '.', '_' and '-' only")
    return value


@click.group()
@HELP_OPTION
def targets() -> None:
    """Manage compilation targets."""


@targets.command("list")
@command
def list_(out: Output) -> int:
    """List the available targets.

    Lists the built-in targets and those in `targets` of the current directory, each with its
    platform and how that was tested.

    \b
    aotc targets list

    Exit code 3 if a file is not a valid target file; the others are listed anyway.
    """
    from aotc.compile.compiler_registry import kind_of
    from aotc.compile.target_files import list_targets

    models, findings = list_targets(Path.cwd())
    found = [
        {
            "name": path.stem,
            "description": model.description,
            "path": str(path),
            "platform": model.platform,
            "platform_checked": kind_of(model.platform).checked,
        }
        for path, model in models.items()
    ]

    rows = [
        *(
            (t["name"], f"{t['platform']}: {t['platform_checked']}", t["description"])
            for t in found
        ),
        ("native", "cpu: run", "the host that builds, described by XLA"),
    ]
    lines = [f"{name:<20} {checked:<20} {description}" for name, checked, description in rows]
    return out.verdict({"targets": found}, lines, tuple(findings), BuildManifestError.exit_code)


@targets.command()
@click.argument("name", shell_complete=target_names, help=TARGET_HELP)
@click.option("--toml", is_flag=True, help="Print a self-contained target file")
@command
def show(out: Output, name: str, toml: bool) -> None:
    """Show the definition of a target.

    Shows the processor or device, its features, threads, and compiler options.

    \b
    aotc targets show cpu-x86-64-v3
    """
    from aotc.compile.compiler_registry import kind_of
    from aotc.compile.target_files import file_text
    from aotc.pipeline.build_plan import resolve_target
    from aotc.report.report_text import print_target

    target = resolve_target(name, Path.cwd(), "aotc targets show")
    if toml:
        file = file_text(kind_of(target.platform).self_contained(target), target.name)
        out.result({"toml": file}, lambda: say(*file.splitlines()))
        return
    out.result({"target": to_builtins(target)}, lambda: print_target(target))


@targets.command()
@click.option(
    "--toml",
    "name",
    metavar="NAME",
    callback=_check_name,
    help="Print a target file with this name",
)
@command
def detect(out: Output, name: str | None) -> None:
    """Show this host's processor and runnable targets.

    With --toml, prints a target file for hosts like this one.

    \b
    aotc targets detect --toml web > targets/web.toml
    """
    from aotc.compile.target_files import NATIVE, file_text, list_targets, target_of
    from aotc.pipeline.build_plan import resolve_target
    from aotc.report.report_text import print_target

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

    out.result({"host": to_builtins(host), "runs": runs}, text)


@targets.command()
@click.argument("name", shell_complete=target_names, help=TARGET_HELP)
@command
def check(out: Output, name: str) -> int | None:
    """Check that this host compiles for a target.

    Compiles a small program in a separate process, and shows whether this host could also run code
    for the target.

    \b
    aotc targets check cpu-x86-64-v4

    Exit code 4 if this host cannot compile for the target. Whether it can run the code does not
    change the exit code.
    """
    from aotc.pipeline.build_plan import resolve_target
    from aotc.pipeline.target_check import check_target

    checked = check_target(resolve_target(name, Path.cwd(), "aotc targets check"))
    document = {
        "target": to_builtins(checked.target),
        "compiles_here": not checked.compiler,
        "jaxlib": checked.jaxlib,
        "compile_seconds": round(checked.seconds, 3),
        "requires": list(checked.isa),
        "runs_here": not checked.host,
        "host_findings": [finding.to_json() for finding in checked.host],
        "notes": list(checked.notes),
    }
    if checked.compiler:
        return report_findings(out, checked.compiler, CompileError.exit_code, **document)

    def text() -> None:
        say(f"compiles   here, with jaxlib {checked.jaxlib}, in {checked.seconds:.1f} s")
        say("runs       not here:" if checked.host else "runs       here")
        if checked.host:
            say(*render(checked.host).splitlines())
        for note in checked.notes:
            say(f"note       {note}")

    out.result(document, text)
    return None
