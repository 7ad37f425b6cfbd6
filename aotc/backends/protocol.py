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
        """Versions of everything that decides on the bytes of an executable.

        Raises CompileError (AOTC-E907) if something is missing.
        """

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module for one target. The same job must give the same bytes.

        Raises CompileError.
        """

    def stop(self) -> None:
        """Stop what is being compiled. Called from another thread; running and later calls of
        `compile` raise `aotc.processes.StoppedError`.
        """
