"""`aotc targets list`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command, report_findings

RUN = ("cpu",)
"""Platforms that programs were run on (docs/targets.md); for the others they were only compiled."""


@click.command("list")
@command
def list_(out: Output) -> int | None:
    """List the targets that a manifest in the current folder can name.

    Beside each is its platform: programs were run on it, or compiled for it only, never run on a
    device. docs/targets.md says how each target was checked. Ends with 3 if some file there is no target file; the others are listed all the same.
    """
    from aotc.config.target import list_targets
    from aotc.errors import BuildManifestError
    from aotc.report.text import printable

    models, findings = list_targets(Path.cwd())
    found = [
        {
            "name": path.stem,
            "description": model.description,
            "path": str(path),
            "platform": model.platform,
            "platform_checked": "run" if model.platform in RUN else "compiled only",
        }
        for path, model in models.items()
    ]

    def text() -> None:
        for target in found:
            checked = f"{target['platform']}: {target['platform_checked']}"
            print(f"{target['name']:<20} {checked:<20} {printable(target['description'])}")
        print(f"{'native':<20} {'cpu: run':<20} the host that builds, described by XLA")

    if findings:
        if not out.json:
            text()
        report_findings(out, tuple(findings), BuildManifestError.exit_code, targets=found)
        return BuildManifestError.exit_code
    out.result({"targets": found}, text)
    return None
