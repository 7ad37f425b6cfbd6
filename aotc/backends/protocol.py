"""What a compiler must offer to be a backend (entry-point group `aotc.backends`)."""

from __future__ import annotations

from typing import Protocol

from aotc.stages import CompileJob, Executable
from aotc_runtime.schema.manifest import BuiltWith


class Backend(Protocol):
    """Compiles modules for targets of one platform. Called from several threads at once."""

    @property
    def platform(self) -> str:
        """The platform of the targets it compiles for, e.g. "cpu"."""

    def toolchain(self) -> BuiltWith:
        """The versions of what compiles."""

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module for one target: the same job gives the same bytes.

        Raises CompileError.
        """

    def stop(self) -> None:
        """End what is being compiled, from another thread; those calls raise, and later ones do."""
