"""Processors that this host is not: emulated by qemu in user mode, a process at a time."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from jax_free import MANIFESTS, Server

from tests.conftest import Bundle
from tests.engines.conftest import ENGINES

OUT = Path(__file__).parents[2] / "out"
"""`make test-foreign` and `make test-arm` put qemu and what runs on it into folders of it."""

SIGILL = -4

CLIENT = """
import json
import sys

import aotc_runtime

path, policy, target, inputs, outputs, weakened = sys.argv[1:]
code = 0
said = {"findings": []}
try:
    if weakened:
        from aotc_runtime.verification import host_compatibility as compatibility
        compatibility.CHECKS = tuple(c for c in compatibility.CHECKS if c.__name__ != weakened)
    with aotc_runtime.load(path, trust=policy, target=target or None) as bundle:
        if inputs:
            import numpy as np
            with np.load(inputs) as given:
                np.savez(outputs, *bundle["f"](given["x"]))
        said["report"] = bundle.report()
except aotc_runtime.AotcError as error:
    code = error.exit_code
    said["findings"] = [finding.to_json() for finding in error.findings]
engines = ("jaxlib.xla_client", "iree._runtime_libs._runtime")
said["loaded"] = [name for name in ("jax", "numpy", *engines) if name in sys.modules]
print(json.dumps(said))
sys.exit(code)
"""


class Said(NamedTuple):
    """A process that ended. document: what it printed; of a refusal, with `findings`."""

    exit_code: int
    document: dict[str, Any]
    outputs: Sequence[np.ndarray[Any, Any]]

    @property
    def codes(self) -> list[str]:
        return [finding["code"] for finding in self.document["findings"]]


class Emulator(NamedTuple):
    """Runs the loader, and nothing else, on a processor of another kind. server: of a Python."""

    server: Server
    folder: Path

    def load(
        self,
        bundle: Bundle,
        x: np.ndarray[Any, Any] | None = None,
        *,
        target: str = "",
        without_check: str = "",
    ) -> Said:
        """Load a bundle by its policy, and call its entry point `f` with x, if there is one.
        without_check: one that is left out.
        """
        given, returned = self.folder / "x.npz", self.folder / "y.npz"
        arrays = ("", "")
        if x is not None:
            np.savez(given, x=x)
            arrays = (str(given), str(returned))
        said = self._run("-c", CLIENT, *bundle, target, *arrays, without_check)
        if not returned.exists():
            return said
        with np.load(returned) as archive:
            return said._replace(outputs=[archive[name] for name in archive.files])

    def verify(self, bundle: Bundle) -> Said:
        """Run `python -m aotc_runtime verify`."""
        return self._run("-m", "aotc_runtime", "verify", bundle[0], "--trust", bundle[1], "--json")

    def _run(self, *arguments: str | Path) -> Said:
        done = subprocess.run(
            [*self.server.command, *map(str, arguments)],
            env={**os.environ, **self.server.environment},
            capture_output=True,
            text=True,
            timeout=600,
            cwd=self.folder,
        )
        assert done.stdout or done.returncode, done.stderr
        return Said(done.returncode, json.loads(done.stdout or "{}"), [])


def _lacks(reason: str, variable: str) -> None:
    """But where the target of make has installed everything, what cannot run has failed."""
    (pytest.fail if os.environ.get(variable) else pytest.skip)(reason)


def qemu_x86() -> Path:
    """qemu-x86_64, the system's or the one in out/foreign; skips the test without one."""
    for name in ("qemu-x86_64-static", "qemu-x86_64"):
        if found := shutil.which(name):
            return Path(found)
    unpacked = OUT / "foreign" / "qemu-x86_64-static"
    if not unpacked.exists():
        _lacks("needs qemu-user: make test-foreign", "AOTC_FOREIGN")
    return unpacked


def x86(cpu: str, python: Path | None = None) -> Server:
    """The loader on a processor, by qemu's name for it. python: of an environment with the runtime;
    jax may be there and is not imported.
    """
    alone = OUT / "foreign" / "runtime" / "bin" / "python"
    chosen = python or (alone if alone.exists() else Path(sys.executable))
    return Server([str(qemu_x86()), "-cpu", cpu, str(chosen)], {})


def old_environment() -> Path:
    """The folder of programs of an environment with jaxlib 0.11.2; skips the test without one."""
    found = OUT / "foreign" / "jaxlib-0.11.2" / "bin"
    if not found.is_dir():
        _lacks("needs an environment with jaxlib 0.11.2: make test-foreign", "AOTC_FOREIGN")
    return found


def arm(cpu: str) -> Server:
    """The production loader on a processor, by qemu's name for it; skips the test without it."""
    emulator, root = OUT / "arm" / "qemu-aarch64", OUT / "arm" / "root"
    python, packages = root / "usr" / "bin" / "python3.13", OUT / "arm" / "packages"
    unpacked = emulator.exists() and python.exists() and (packages / "aotc_runtime").exists()
    # What `make test-arm` has left here says nothing of the environment that runs the tests now.
    (iree,) = (engine for engine in ENGINES if engine.name == "iree")
    if not (unpacked and iree.is_here()):
        _lacks("needs `make test-arm`", "AOTC_ARM")
    return Server(
        [str(emulator), "-L", str(root), "-cpu", cpu, str(python)],
        {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": f"{packages}:{MANIFESTS}"},
    )


def arm_toolchain(cpu: str, folder: Path) -> Server:
    """The toolchain on a processor. A program in a folder starts each of its processes anew in
    qemu, which Linux does only where it is registered for that.
    """
    emulator = arm(cpu).command
    program, root = folder / "python-of-arm", OUT / "arm" / "root"
    # Without setarch, the compiler starts itself anew as a program of this host.
    words = ["setarch", "-R", emulator[0], "-0", str(program), *emulator[1:]]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    paths = {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": str(OUT / "arm" / "toolchain")}
    return Server([str(program)], paths)


def fitting(said: Said) -> Mapping[str, list[str]]:
    """Return what a verification says of each target: the codes of what stops it."""
    candidates = said.document["target_reason"]["candidates"]
    return {each["target"]: [f["code"] for f in each["findings"]] for each in candidates}
