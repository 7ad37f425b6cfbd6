"""Converts a worker's result to an executable or an error, for backends of accelerators."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from aotc.base.errors import quote, refusal
from aotc.base.stages import CompileJob, Executable
from aotc.compile.compile_refusals import (
    LINES_SHOWN,
    place_of,
    refused_calls,
    refused_program,
    unknown_jaxlib,
)
from aotc.compile.compile_workers import executable_of, memory_of
from aotc.compile.worker_results import Problem, Result
from aotc.compile.xla.xla_custom_calls import targets
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import Compilation

_ENTRY = re.compile(r"^ENTRY .*\n((?:.*\n)*?)\}", re.MULTILINE)
_STEP = re.compile(r" = .*? ([a-z][a-z0-9-]*)\(")
_NO_STEPS = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})


@dataclass(frozen=True, slots=True)
class Platform:
    """The differences between platforms.

    `is_allowed` tells whether the runtime can serve a custom call, `served` names those it can in
    messages. `correct` is the hint for a target that the plugin does not understand.
    """

    is_allowed: Callable[[str], bool]
    served: str
    correct: str


def executable(
    job: CompileJob, result: Result, said: list[str], platform: Platform, compilation: Compilation
) -> Executable:
    """Return the executable that was compiled; `said` is what the worker printed.

    Raises:
        CompileError: AOTC-E901 the compiler rejects the program, E904 a custom call that the
            runtime cannot serve, E906 an unknown jaxlib, E908 a device that the plugin does not
            know.
    """
    if result.problem:
        raise _problem(job, result, said, platform)
    called = targets(result.hlo_text)
    if refused := [name for name in called if not platform.is_allowed(name)]:
        raise refused_calls(job, refused, platform.served)
    return replace(
        executable_of(job, result, said),
        isa=(),
        tuning=(),
        custom_call_targets=called,
        memory=memory_of(result.memory, result.memory.get("code", len(result.serialized))),
        thunks=steps(result.hlo_text),
        compilation=compilation,
    )


def steps(hlo_text: str) -> dict[str, int]:
    """Count the instructions of the entry computation by kind, without those that do nothing.

    A fusion is one generated kernel.
    """
    entry = _ENTRY.search(hlo_text)
    kinds = Counter(
        "kernel" if kind == "fusion" else kind
        for kind in (_STEP.findall(entry[1]) if entry else ())
        if kind not in _NO_STEPS
    )
    return dict(sorted(kinds.items()))


def _problem(job: CompileJob, result: Result, said: list[str], platform: Platform) -> AotcError:
    if result.problem is Problem.JAXLIB:
        return unknown_jaxlib(job, "descriptions of devices", result.words)
    if result.problem is Problem.TARGET:
        found, cause = quote(result.words, said[-LINES_SHOWN:]), "device-description-is-invalid"
        return refusal("AOTC-E908", place_of(job), found, cause=cause, hint=platform.correct)
    if refused := [name for name in result.called if not platform.is_allowed(name)]:
        return refused_calls(job, refused, platform.served)
    return refused_program(job, result.words, said)
