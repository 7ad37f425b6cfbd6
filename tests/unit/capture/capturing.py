"""Helpers that write programs and capture them."""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from aotc.base.stages import CapturedEntryPoint, CapturedProgram
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.base.errors import Finding
from tests.conftest import manifest_of

HEADER = manifest_of("""\
name = "program"
""")

BOUND = """
[entry_points.f]
function = "program:f"
bind = { params = "params" }
inputs.x = { shape = [4], dtype = "float32" }

[weights.params]
"""
ONE_INPUT = """
[entry_points.f]
function = "program:f"
inputs.x = { shape = [4], dtype = "float32" }
"""

BATCHED = """
[dimensions.batch]
range = [1, 64]
profiles = [1, 8]

[entry_points.f]
function = "program:f"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
"""

IMPORTS = """\
from typing import NamedTuple
import jax
import jax.numpy as jnp
import numpy as np
"""


def npz(**arrays: Any) -> bytes:
    """A file of arrays, as numpy.savez writes it."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, **arrays)
    return file.getvalue()


@dataclass(frozen=True)
class Outcome:
    """Outcome of a capture. stderr: what the worker printed."""

    exit_code: int
    findings: tuple[Finding, ...]
    scratch: Scratch
    stderr: str

    @property
    def program(self) -> CapturedProgram:
        assert self.exit_code == 0, f"{self.findings}\n{self.stderr}"
        return self.scratch.program.read()

    @property
    def f(self) -> CapturedEntryPoint:
        """The entry point that most programs here have."""
        return self.program.entry_points["f"]

    def inputs(self, profile: int) -> Path:
        """The inputs of the fixture of `f` at one of its profiles, by their order."""
        return self.scratch.inputs(list(self.f.by_key)[profile])

    def results(self, profile: int) -> Path:
        """The recorded results of `f` at one of its profiles, by their order."""
        return self.scratch.results(list(self.f.by_key)[profile])

    @property
    def refusal(self) -> Finding:
        """The only finding of a refused capture."""
        assert self.exit_code == 3, f"status {self.exit_code}\n{self.stderr}"
        assert len(self.findings) == 1, self.findings
        return self.findings[0]


def key_path(finding: Finding) -> str:
    """Return the place of a finding in its manifest, behind the file and the line."""
    at = re.fullmatch(r"\S*program\.toml:\d+ (.+)", finding.where)
    assert at, finding.where
    return at[1]


class Capture(Protocol):
    """Capture a module and the part of its manifest below the header.

    The module, `program`, has jax, jnp, np and NamedTuple imported. files: further files beside it.
    keep_going: as of the build.  name: of the scratch folder, for a second capture.
    """

    def __call__(
        self,
        source: str,
        manifest: str = ONE_INPUT,
        *,
        header: str = "",
        files: dict[str, bytes] | None = None,
        keep_going: bool = False,
        name: str = "scratch",
    ) -> Outcome: ...
