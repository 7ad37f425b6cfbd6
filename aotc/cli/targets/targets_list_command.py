"""`aotc targets list`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, report_findings
from aotc_runtime.base.rendering import say


@click.command("list")
@command
def list_(out: Output) -> int | None:
    """List the targets that a manifest in the current folder can name.

    Beside each is its platform: programs were run on it, or compiled for it only, never run on a
    device, or not even compiled. docs/targets.md says how each target was checked.

    Ends with 3 if some file there is no target file; the others are listed all the same.
    """
    from aotc.base.errors import BuildManifestError
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

    def text() -> None:
        for target in found:
            checked = f"{target['platform']}: {target['platform_checked']}"
            say(f"{target['name']:<20} {checked:<20} {target['description']}")
        say(f"{'native':<20} {'cpu: run':<20} the host that builds, described by XLA")

    if findings:
        if not out.json:
            text()
        report_findings(out, tuple(findings), BuildManifestError.exit_code, targets=found)
        return BuildManifestError.exit_code
    out.result({"targets": found}, text)
    return None
