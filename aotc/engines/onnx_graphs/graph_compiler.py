"""A backend for an engine that takes graphs: modules to graphs, each in a child process."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from aotc.base.errors import refusal
from aotc.base.stages import CompileJob, Executable
from aotc.base.workers import worker_environment, worker_parent
from aotc.compile.compile_refusals import place_of, refused_calls, require_word
from aotc.compile.compile_workers import SECONDS_MAX, CompileWorkers, executable_of
from aotc.compile.xla.xla_compiler import built_with
from aotc.engines.onnx_graphs.graph_job import Job
from aotc.engines.onnx_graphs.graph_kind import Engine
from aotc_runtime.schema.bundle_manifest import BuiltWith

FORMAT = "onnx"
"""What writes graphs."""

VNNI = frozenset({"avx512vnni", "avxvnni"})
"""Features of processors that add products of uint8 and int8 in 32 bits, without saturation."""


def versions(engine: Engine) -> dict[str, str]:
    """Return the version of each distribution that compiles for an engine.

    Raises CompileError (AOTC-E907) if one is missing.
    """
    names = (FORMAT, engine.runtime)
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError as error:
            raise refusal(
                "AOTC-E907",
                f"the engine {engine.platform}",
                f"no {name}",
                expected=" and ".join(names),
                hint=f"in a clone, run `pip install ./runtime ./runtime/serve '.[{engine.extra}]'`",
            ) from error
    return found


class GraphBackend:
    """An engine that is installed, with our translation for it.

    worker: the command that compiles what it finds in its working folder; the engine's without
    one.  seconds_max: how long it may take for one executable.
    """

    def __init__(
        self, engine: Engine, worker: Sequence[str] = (), seconds_max: float = SECONDS_MAX
    ) -> None:
        self._engine = engine
        command = worker or worker_parent.module(engine.worker)
        self._workers = CompileWorkers(command, seconds_max)

    @property
    def platform(self) -> str:
        """The platform of the targets it compiles for."""
        return self._engine.platform

    def toolchain(self) -> BuiltWith:
        """Return versions of aotc, jax, jaxlib and engine. Raises CompileError (AOTC-E907)."""
        return built_with(versions(self._engine))

    def compile(self, job: CompileJob) -> Executable:
        """Translate one module and have the engine's compiler take the graph.

        Raises CompileError: AOTC-E902 the compiler crashed, E903 it took too long, E904 a custom
        call, E907 it is missing, E908 another word for threads, E916 an operation that has no
        equal in it.
        """
        if job.mesh is not None:
            found, cause = f"{len(job.mesh.devices)} devices", "engine-supports-one-device-only"
            raise refusal("AOTC-E916", place_of(job), found, cause=cause)
        request = Job(
            artifact=job.module.artifact,
            weights=job.weights,
            threads=self._threads(job),
            vnni=not VNNI.isdisjoint(job.target.features),
        )
        result, said = self._workers.compile(job, request, lambda folder: worker_environment.bare())
        if result.problem and result.called:
            instead = f'list another engine behind it: engines = ["{self.platform}", "xla"]'
            raise refused_calls(job, result.called, f"of {self._engine.name} none", instead)
        if result.problem:
            raise refusal("AOTC-E916", place_of(job), result.words)
        return executable_of(job, result, said)

    def _threads(self, job: CompileJob) -> str:
        option = self._engine.option
        stated = {**job.target.options, **job.options}.get(option, "")
        return require_word(job, option, stated, self._engine.threads)

    def stop(self) -> None:
        """Stop what is being compiled; running and later calls of `compile` raise StoppedError."""
        self._workers.stop()
