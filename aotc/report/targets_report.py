"""Targets, and what was found out about them, for people and for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from aotc.pipeline.target_check import TargetCheck
from aotc_runtime.base.rendering import render, say
from aotc_runtime.schema.bundle_manifest import Target


def target_document(target: Target) -> dict[str, Any]:
    """A target as JSON-able data."""
    document: dict[str, Any] = msgspec.to_builtins(target)
    return document


def check_document(checked: TargetCheck) -> dict[str, Any]:
    """The result of `aotc targets check` as JSON-able data."""
    return {
        "target": target_document(checked.target),
        "compiles_here": not checked.compiler,
        "jaxlib": checked.jaxlib,
        "compile_seconds": round(checked.seconds, 3),
        "requires": list(checked.isa),
        "runs_here": not checked.host,
        "host_findings": [finding.to_json() for finding in checked.host],
        "notes": list(checked.notes),
    }


def print_check(checked: TargetCheck) -> None:
    """The text of `aotc targets check`, for a target that this machine can compile for."""
    say(f"compiles   here, with jaxlib {checked.jaxlib}, in {checked.seconds:.1f} s")
    say("runs       here" if not checked.host else "runs       not here:")
    if checked.host:
        say(*render(checked.host).splitlines())
    for note in checked.notes:
        say(f"note       {note}")
