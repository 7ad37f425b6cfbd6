"""A backend for an engine that takes graphs: modules to graphs, each in a child process."""

from collections.abc import Iterator, Sequence

from aotc.base.errors import refusal
from aotc.base.stages import CompileJob, Executable
from aotc.compile.compile_refusals import place_of, refused_calls, require_installed, require_word
from aotc.compile.compile_workers import WorkerBackend, executable_of
from aotc.compile.xla.xla_compiler import built_with
from aotc.engines.onnx_graphs.graph_job import Job
from aotc.engines.onnx_graphs.graph_kind import Engine
from aotc_runtime.schema.bundle_manifest import BuiltWith

FORMAT = "onnx"
"""What writes graphs."""

VNNI = frozenset({"avx512vnni", "avxvnni"})
"""Features of processors that add products of uint8 and int8 in 32 bits, without saturation."""


class GraphBackend(WorkerBackend):
    """An engine that is installed, with our translation for it."""

    def __init__(self, engine: Engine, worker: Sequence[str] = ()) -> None:
        self._engine = engine
        self.WORKER, self.platform = engine.worker, engine.platform
        super().__init__(worker)

    def toolchain(self) -> BuiltWith:
        """Return versions of aotc, jax, jaxlib and engine. Raises CompileError (AOTC-E907)."""
        return built_with(
            require_installed(self.platform, self._engine.extra, FORMAT, self._engine.runtime)
        )

    def compile(self, job: CompileJob) -> Executable:
        """Translate one module and have the engine's compiler take the graph.

        Raises CompileError: AOTC-E902 the compiler crashed, E903 it took too long, E904 a custom
        call, E907 it is missing, E908 another word for threads, E916 an operation that has no
        equal in it.
        """
        if job.mesh is not None:
            found, cause = f"{len(job.mesh.devices)} devices", "engine-supports-one-device-only"
            raise refusal("AOTC-E916", place_of(job), found, cause=cause)
        threads, accuracy = self._words(job)
        request = Job(
            artifact=job.module.artifact,
            weights=job.weights,
            threads=threads,
            accuracy=accuracy,
            vnni=not VNNI.isdisjoint(job.target.features),
            dimension=job.dimension,
            artifacts=dict(job.artifacts),
        )
        result, said = self._run(job, request)
        if result.problem and result.called:
            instead = f'list another engine behind it: engines = ["{self.platform}", "xla"]'
            raise refused_calls(job, result.called, "", instead)
        if result.problem:
            raise refusal("AOTC-E916", place_of(job), result.words)
        return executable_of(job, result, said)

    def _words(self, job: CompileJob) -> Iterator[str]:
        stated = {**job.target.options, **job.options}
        known = self._engine.threads, self._engine.levels
        for option, words in zip(self._engine.options, known, strict=True):
            yield require_word(job, option, stated.get(option, ""), words)
