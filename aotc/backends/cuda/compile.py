"""The CUDA backend: modules to executables for described GPUs, each in a process of its own."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec.structs import replace

from aotc.backends import worker_process
from aotc.backends.cuda import custom_calls, descriptions, wheels
from aotc.backends.cuda.wheels import Wheels
from aotc.backends.cuda.worker import Job
from aotc.backends.worker_process import LINES_SHOWN, SECONDS_MAX, cost_of, failure, memory_of
from aotc.backends.xla.compile import built_with
from aotc.backends.xla.custom_calls import is_callback, targets
from aotc.backends.xla.worker import Problem, Result
from aotc.errors import CompileError, quoted, raise_if
from aotc.processes import Processes
from aotc.stages import CompileJob, Executable
from aotc.temporaries import temporary_folder
from aotc_runtime.digest import sha256
from aotc_runtime.errors import Finding
from aotc_runtime.schema.device import Compilation, CudaDevice
from aotc_runtime.schema.manifest import BuiltWith, Target
from aotc_runtime.words import closest

WORKER = (sys.executable, "-P", "-m", "aotc.backends.cuda.worker")

LEFT_OUT = ("autotuning",)
"""XLA times kernels against each other on the device; without one it takes its defaults."""

_ENTRY = re.compile(r"^ENTRY .*\n((?:.*\n)*?)\}", re.MULTILINE)
_STEP = re.compile(r" = .*? ([a-z][a-z0-9-]*)\(")
_NO_STEPS = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})


class CudaBackend:
    """XLA:GPU of the installed CUDA plugin.

    worker: the command that compiles what it finds in its working folder.  seconds_max: how long it
    may take for one executable.
    """

    platform = "cuda"

    def __init__(self, worker: Sequence[str] = WORKER, seconds_max: float = SECONDS_MAX) -> None:
        self._worker = tuple(worker)
        self._seconds_max = seconds_max
        self._processes = Processes()

    def toolchain(self) -> BuiltWith:
        """Versions of aotc, jax, jaxlib, XLA, and the wheels that take part.

        Raises CompileError (AOTC-E907) for wheels that are missing or do not fit.
        """
        return built_with(_wheels().versions)

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module. Raises CompileError: AOTC-E901 the compiler refused, E902 it crashed,
        E903 it took too long, E904 a custom call the runtime cannot serve, E906 an unknown jaxlib,
        E907 wheels that are missing, E908 a device that cannot be compiled for.
        """
        installed = _wheels()
        text = _text(job, installed)
        request = Job(
            plugin=str(installed.plugin),
            text=text,
            devices=job.target.devices,
            triple=job.target.triple,
            options={**job.target.options, **job.options},
        )
        with temporary_folder(Path(tempfile.gettempdir()), "aotc-compile-", "") as folder:
            (folder / "job.json").write_bytes(msgspec.json.encode(request))
            (folder / "module.bin").write_bytes(job.module.artifact)
            said = worker_process.run(
                self._processes,
                self._worker,
                folder,
                job,
                worker_process.environment(),
                self._seconds_max,
            )
            result_bytes = (folder / worker_process.RESULT_FILE).read_bytes()
            serialized = (folder / "executable.bin").read_bytes()
        result = msgspec.json.decode(result_bytes, type=Result)
        if result.problem:
            raise _problem(job, result, said)
        return _executable(job, result, serialized, said, text)

    def stop(self) -> None:
        """End what is being compiled; those calls raise, and later ones do."""
        self._processes.stop()


def _wheels() -> Wheels:
    found, findings = wheels.find(version("jaxlib"))
    raise_if(findings)
    assert found is not None, "without findings there are wheels"
    return found


def self_contained(target: Target) -> Target:
    """The target with the installed plugin's description in it, for plugins that have none.

    Raises CompileError (AOTC-E907, E908).
    """
    device = target.device
    assert isinstance(device, CudaDevice), "a target of the platform cuda has a CUDA device"
    text = device.text or descriptions.texts_once(_wheels().plugin).get(device.description)
    if text is None:
        raise _unknown(f"target {target.name}", target, _wheels())
    return replace(target, device=replace(device, text=text))


def description(device: CudaDevice, installed: Wheels) -> str | None:
    """The text that is compiled for; None if the plugin has none of that name."""
    text = device.text or descriptions.texts_once(installed.plugin).get(device.description)
    return None if text is None else descriptions.complete(text, device)


def _text(job: CompileJob, installed: Wheels) -> str:
    device = job.target.device
    assert isinstance(device, CudaDevice), "a target of the platform cuda has a CUDA device"
    text = description(device, installed)
    if text is not None:
        return text
    raise _unknown(f"{job.label} for {job.target.name}", job.target, installed)


def _unknown(where: str, target: Target, installed: Wheels) -> CompileError:
    assert isinstance(target.device, CudaDevice)
    known = descriptions.texts_once(installed.plugin)
    close = closest(target.device.description, known)
    hint = f"did you mean {close}?" if close else "correct `device` in the target file"
    if not known:
        hint = (
            "plugins have descriptions since 0.12.0: there, `aotc targets show "
            f"{target.name} --toml` prints a target file that brings its own"
        )
    return CompileError(
        Finding(
            code="AOTC-E908",
            where=where,
            expected=f"a description in {wheels.PLUGIN} {installed.versions[wheels.PLUGIN]}: "
            + (", ".join(known) or "it has none"),
            found=target.device.description,
            hint=hint,
        )
    )


def _executable(
    job: CompileJob, result: Result, serialized: bytes, said: list[str], text: str
) -> Executable:
    called = targets(result.hlo_text)
    if refused := [name for name in called if not custom_calls.is_allowed(name)]:
        raise _refused_calls(job, refused)
    return Executable(
        serialized=serialized,
        digest=sha256(serialized),
        isa=(),
        tuning=(),
        custom_call_targets=called,
        memory=memory_of(result.memory, len(serialized)),
        cost=cost_of(result.cost),
        thunks=steps(result.hlo_text),
        compile_seconds=result.compile_seconds,
        diagnostics=tuple(said),
        compilation=Compilation(
            without_device=True, left_out=LEFT_OUT, claims=descriptions.claims(text)
        ),
    )


def steps(hlo_text: str) -> dict[str, int]:
    """Instructions of the entry computation by kind, but for those that do nothing at run time.
    A fusion is one generated kernel.
    """
    entry = _ENTRY.search(hlo_text)
    kinds = Counter(
        "kernel" if kind == "fusion" else kind
        for kind in (_STEP.findall(entry[1]) if entry else ())
        if kind not in _NO_STEPS
    )
    return dict(sorted(kinds.items()))


def _problem(job: CompileJob, result: Result, said: list[str]) -> CompileError:
    if result.problem is Problem.JAXLIB:
        return failure(
            "AOTC-E906",
            job,
            "jaxlib's interfaces and descriptions of devices as in 0.11.2 to 0.12.0",
            f"{result.words} (jaxlib {version('jaxlib')})",
            "install a jaxlib that this aotc supports: `pip install 'jaxlib>=0.11.2,<0.13'`",
        )
    if result.problem is Problem.TARGET:
        return failure(
            "AOTC-E908",
            job,
            "a description that the plugin understands",
            quoted(result.words, said[-LINES_SHOWN:]),
            "correct `changes` or `text` in the target file",
        )
    if refused := [name for name in result.called if not custom_calls.is_allowed(name)]:
        return _refused_calls(job, refused)
    return failure(
        "AOTC-E901",
        job,
        "a program that XLA compiles for this target",
        quoted(result.words, said[-LINES_SHOWN:]),
        "the message is XLA's; the operation it names is in the entry point",
    )


def _refused_calls(job: CompileJob, refused: list[str]) -> CompileError:
    return failure(
        "AOTC-E904",
        job,
        f"only custom calls that the runtime can serve: {custom_calls.EXPECTED}",
        ", ".join(refused),
        "remove the callback from the function"
        if any(is_callback(name) for name in refused)
        else "express the operation in plain jax",
    )
