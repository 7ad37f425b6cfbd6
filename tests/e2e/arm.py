"""Arm processors, which this host is not: emulated by qemu in user mode, a process at a time."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jax_free import MANIFESTS, Server

from tests.engines.conftest import ENGINES

INSTALLED = Path(__file__).parents[2] / "out" / "arm"
"""Where `make test-arm` puts qemu, Python and the loader."""

(IREE,) = (engine for engine in ENGINES if engine.name == "iree")

SIGILL = -4

LOAD = """
import json
import sys

import aotc_runtime
from aotc_runtime.verification import host_compatibility as compatibility

path, policy, target, weakened = sys.argv[1:]
compatibility.CHECKS = tuple(c for c in compatibility.CHECKS if c.__name__ != weakened)
findings = []
try:
    aotc_runtime.load(path, trust=policy, target=target).close()
except aotc_runtime.AotcError as error:
    findings = [finding.to_json() for finding in error.findings]
loaded = [name for name in ("iree._runtime_libs._runtime", "jaxlib") if name in sys.modules]
print(json.dumps({"findings": findings, "loaded": loaded}))
"""


class Said(NamedTuple):
    """A process that ended. document: what it printed."""

    exit_code: int
    document: dict[str, Any]


def server(cpu: str) -> Server:
    """The production loader on a processor, by qemu's name for it; skips the test without it."""
    emulator, root = INSTALLED / "qemu-aarch64", INSTALLED / "root"
    python, packages = root / "usr" / "bin" / "python3.13", INSTALLED / "packages"
    unpacked = emulator.exists() and python.exists() and (packages / "aotc_runtime").exists()
    # What `make test-arm` has left here says nothing of the environment that runs the tests now.
    if not (unpacked and IREE.is_here()):
        # Under `make test-arm`, which installs everything, what cannot run has failed.
        (pytest.fail if os.environ.get("AOTC_ARM") else pytest.skip)("needs `make test-arm`")
    return Server(
        [str(emulator), "-L", str(root), "-cpu", cpu, str(python)],
        {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": f"{packages}:{MANIFESTS}"},
    )


def run(cpu: str, *arguments: str | Path) -> Said:
    """Python on a processor, with these arguments."""
    command, environment = server(cpu)
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout or done.returncode, done.stderr
    return Said(done.returncode, json.loads(done.stdout or "{}"))


def verify(cpu: str, bundle: tuple[Path, Path]) -> Said:
    """`python -m aotc_runtime verify` on a processor."""
    return run(cpu, "-m", "aotc_runtime", "verify", bundle[0], "--trust", bundle[1], "--json")


def load(cpu: str, bundle: tuple[Path, Path], target: str, *, without_check: str = "") -> Said:
    """Load a target on a processor. without_check: one that is left out."""
    return run(cpu, "-c", LOAD, *bundle, target, without_check)


def fitting(said: Said) -> Mapping[str, list[str]]:
    """What a verification says of each target: the codes of what stops it."""
    candidates = said.document["target_reason"]["candidates"]
    return {each["target"]: [f["code"] for f in each["findings"]] for each in candidates}
