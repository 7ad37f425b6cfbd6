"""Processors that this host is not: emulated by qemu in user mode, a process at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / "out" / "foreign"
"""Where `make test-foreign` puts qemu and the environments of servers."""

SIGILL = -4

CLIENT = """
import json
import sys

import aotc_runtime

path, policy, inputs, outputs, weakened = sys.argv[1:]
code = 0
said = {}
try:
    if weakened:
        from aotc_runtime.verification import host_compatibility as compatibility
        compatibility.CHECKS = tuple(c for c in compatibility.CHECKS if c.__name__ != weakened)
    with aotc_runtime.load(path, trust=policy) as bundle:
        import numpy as np
        with np.load(inputs) as given:
            results = bundle["f"](given["x"])
        np.savez(outputs, *results)
        said["report"] = bundle.report()
except aotc_runtime.AotcError as error:
    code = error.exit_code
    said["findings"] = [finding.to_json() for finding in error.findings]
said["loaded"] = [n for n in ("jax", "numpy", "jaxlib.xla_client") if n in sys.modules]
print(json.dumps(said))
sys.exit(code)
"""


class Said(NamedTuple):
    """A server's process. document: what it printed; of a refusal, with `findings`."""

    exit_code: int
    document: dict[str, Any]
    outputs: list[np.ndarray[Any, Any]]

    @property
    def codes(self) -> list[str]:
        return [finding["code"] for finding in self.document["findings"]]


class Emulator:
    """Runs the loader, and nothing else, on a processor of another kind.

    python: of an environment with the runtime; jax may be there and is not imported.
    """

    def __init__(self, qemu: Path, cpu: str, python: Path, folder: Path) -> None:
        self._command = [str(qemu), "-cpu", cpu, str(python)]
        self._folder = folder

    def load(
        self, bundle: Path, policy: Path, x: np.ndarray[Any, Any], *, without_check: str = ""
    ) -> Said:
        """Load a bundle, call its entry point `f` with x. without_check: one that is left out."""
        client, given, returned = (self._folder / n for n in ("client.py", "x.npz", "y.npz"))
        client.write_text(CLIENT)
        np.savez(given, x=x)
        done = self._run(client, bundle, policy, given, returned, without_check)
        outputs = []
        if returned.exists():
            with np.load(returned) as archive:
                outputs = [archive[name] for name in archive.files]
        return Said(done.returncode, json.loads(done.stdout or "{}"), outputs)

    def verify(self, bundle: Path, policy: Path) -> Said:
        """`python -m aotc_runtime verify`."""
        done = self._run("-m", "aotc_runtime", "verify", bundle, "--trust", policy, "--json")
        return Said(done.returncode, json.loads(done.stdout or "{}"), [])

    def _run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=self._folder,
        )


def skip(reason: str) -> None:
    """But under `make test-foreign`, which installs everything, what cannot run has failed."""
    if os.environ.get("AOTC_FOREIGN"):
        pytest.fail(reason)
    pytest.skip(reason)


def find_qemu() -> Path:
    """qemu-x86_64, the system's or the one in out/foreign; skips the test without one."""
    for name in ("qemu-x86_64-static", "qemu-x86_64"):
        if found := shutil.which(name):
            return Path(found)
    unpacked = INSTALLED / "qemu-x86_64-static"
    if not unpacked.exists():
        skip("needs qemu-user: make test-foreign, or apt-get install qemu-user-static")
    return unpacked


def server_python() -> Path:
    """An environment with the runtime alone if there is one, or that of the tests."""
    found = INSTALLED / "runtime" / "bin" / "python"
    return found if found.exists() else Path(sys.executable)


def old_environment() -> Path:
    """The folder of programs of an environment with jaxlib 0.11.2; skips the test without one."""
    found = INSTALLED / "jaxlib-0.11.2" / "bin"
    if not found.is_dir():
        skip("needs an environment with jaxlib 0.11.2: make test-foreign")
    return found
