"""`aotc targets`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command


@click.group()
def targets() -> None:
    """Show the machines that can be compiled for."""


@targets.command("list")
@command
def list_(out: Output) -> None:
    """List the targets that a manifest in the current folder can name."""
    from aotc.config.target import list_targets

    found = [
        {"name": model.name, "description": model.description, "path": str(path)}
        for path, model in list_targets(Path.cwd())
    ]

    def text() -> None:
        for target in found:
            print(f"{target['name']:<20} {target['description']}")
        print(f"{'native':<20} the host that builds, described by XLA")

    out.result({"targets": found}, text)


@targets.command()
@click.argument("name")
@command
def show(out: Output, name: str) -> None:
    """Show a target: processor, features, threads and options."""
    from aotc.build.plan import resolve_target
    from aotc.report.text import print_target

    target = resolve_target(name, Path.cwd(), "NAME")
    out.result({"target": target_document(target)}, lambda: print_target(target))


@targets.command()
@command
def detect(out: Output) -> None:
    """Describe this host, and name the targets it can run."""
    from aotc.build.plan import resolve_target
    from aotc.config.target import NATIVE, list_targets, target_of
    from aotc.report.text import print_target

    host = resolve_target(NATIVE, Path.cwd(), NATIVE)
    runs = [
        model.name
        for _, model in list_targets(Path.cwd())
        if set(target_of(model).features) <= set(host.features)
    ]

    def text() -> None:
        print_target(host)
        print(f"runs       {', '.join(runs) or 'none of the known targets'}")

    out.result({"host": target_document(host), "runs": runs}, text)


def target_document(target: object) -> dict[str, object]:
    """A target as JSON-able data."""
    import msgspec

    document: dict[str, object] = msgspec.to_builtins(target)
    return document
