"""Compiles a portable artifact for any platform, in a compile worker."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.compile.mlir import mlir_context
from aotc.compile.worker_results import Problem, ProblemError
from aotc.compile.xla import jaxlib_private


@dataclass(frozen=True, slots=True)
class Compiled:
    """An unloaded executable of jaxlib.

    `called` has the module's custom call targets, and `operations` counts its operations by name.
    """

    executable: Any
    called: tuple[str, ...]
    operations: dict[str, int]
    seconds: float


def require_names(names: Sequence[str] = jaxlib_private.NAMES) -> None:
    """Raises ProblemError for names that the installed jaxlib lacks."""
    if absent := jaxlib_private.missing(names):
        raise ProblemError(Problem.JAXLIB, "no " + ", ".join(absent))


def compile_artifact(
    artifact: bytes,
    prepare: Callable[[Any, tuple[str, ...]], None],
    compile_module: Callable[[Any], Any],
) -> Compiled:
    """Read and compile a module; `prepare` is called first, with the module and its custom calls.

    Raises ProblemError if the compiler rejects it.
    """
    called: tuple[str, ...] = ()
    try:
        module = mlir_context.read_artifact(artifact)
        called = tuple(jaxlib_private.custom_call_targets(module))
        operations = jaxlib_private.operations(module)
        prepare(module, called)
        started = time.perf_counter()
        executable = compile_module(module)
    except (jaxlib_private.XlaError, jaxlib_private.MlirError, ValueError) as error:
        raise ProblemError(Problem.PROGRAM, str(error), called) from error
    return Compiled(executable, called, operations, time.perf_counter() - started)
