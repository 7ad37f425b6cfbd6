"""A backend for an engine that takes graphs: modules to graphs, each in a child process."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from aotc.base.errors import refusal
from aotc.base.stages import CompileJob, Executable
from aotc.base.workers import worker_environment
from aotc.compile.compile_refusals import place_of, refused_calls, require_word
from aotc.compile.compile_workers import SECONDS_MAX, CompileWorkers, executable_of
from aotc.compile.compiler_protocol import DEFAULT, Candidate
from aotc.compile.xla.xla_compiler import built_with
from aotc.engines.onnx_graphs.graph_job import Job
from aotc_runtime.schema.bundle_manifest import BuiltWith

FORMAT = "onnx"
"""What writes graphs."""


def versions(engine: str, extra: str, names: Sequence[str]) -> dict[str, str]:
    """The version of each distribution. extra: of aotc, that installs them.

    Raises CompileError (AOTC-E907) where one is missing.
    """
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError as error:
            raise refusal(
                "AOTC-E907",
                f"the engine {engine}",
                f"{name} is not installed",
                expected=f"{' and '.join(names)}, which compile for it",
                hint=f"from a clone: `pip install ./runtime ./runtime/serve '.[{extra}]'`, or name "
                "another engine in `engines`",
            ) from error
    return found


def thread_candidates(engine: str, *words: str) -> tuple[Candidate, ...]:
    """Return the candidates of an engine that takes graphs: the default, and threads."""
    option = threads_option(engine)
    return (Candidate(DEFAULT), *(Candidate(word, {option: word}) for word in words))


def threads_option(platform: str) -> str:
    """The option of a target that says who computes a call."""
    return f"{platform}-threads"


class GraphBackend:
    """An engine that is installed, with our translation for it.

    platform: of its targets.  name: the engine's, in messages.  extra: of aotc, that installs the
    packages which compile.  threads: the words for who computes a call, that its option takes.
    worker: the command that compiles what it finds in its working folder.
    seconds_max: how long it may take for one executable.
    """

    platform: str
    name: str
    extra: str
    packages: Sequence[str]
    threads: Sequence[str]

    def __init__(self, worker: Sequence[str], seconds_max: float = SECONDS_MAX) -> None:
        self._workers = CompileWorkers(worker, seconds_max)

    def toolchain(self) -> BuiltWith:
        """Versions of aotc, jax, jaxlib and the packages. Raises CompileError (AOTC-E907)."""
        return built_with(versions(self.platform, self.extra, self.packages))

    def compile(self, job: CompileJob) -> Executable:
        """Translate one module and have the engine's compiler take the graph.

        Raises CompileError: AOTC-E902 the compiler crashed, E903 it took too long, E904 a custom
        call, E907 it is missing, E908 another word for threads, E916 an operation that has no
        equal in it.
        """
        if job.mesh is not None:
            found = f"a program over {len(job.mesh.devices)} devices"
            raise refusal("AOTC-E916", place_of(job), found, expected="a program on one device")
        request = Job(artifact=job.module.artifact, weights=job.weights, threads=self._threads(job))
        result, said = self._workers.compile(job, request, lambda folder: worker_environment.bare())
        if result.problem and result.called:
            instead = f'list another engine behind it: engines = ["{self.platform}", "xla"]'
            raise refused_calls(job, result.called, f"of {self.name} none", instead)
        if result.problem:
            raise refusal("AOTC-E916", place_of(job), result.words)
        return executable_of(job, result, said)

    def _threads(self, job: CompileJob) -> str:
        option = threads_option(self.platform)
        stated = {**job.target.options, **job.options}.get(option, "")
        return require_word(job, option, stated, self.threads)

    def stop(self) -> None:
        """Stop what is being compiled; running and later calls of `compile` raise StoppedError."""
        self._workers.stop()
