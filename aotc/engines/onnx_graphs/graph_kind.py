"""Target files for processors on which an engine runs graphs."""

from typing import ClassVar, NamedTuple

from aotc.compile.compiler_protocol import DEFAULT, Backend, Candidate, plugin_requirements
from aotc.compile.cpu.cpu_kind import ProcessorKind, ProcessorModel
from aotc_runtime.schema.bundle_manifest import BuiltWith, DeviceRequirements, Target


class Engine(NamedTuple):
    """An engine that takes graphs.

    platform: of its targets.  name: in messages.  extra: of aotc, that installs what compiles.
    runtime: the distribution that runs the graphs.  device: what its loader calls the processor.
    threads: the words for who computes a call, that its option takes.  worker: the module that
    compiles what it finds in its working folder.  levels: of accuracy, that its option takes.
    """

    platform: str
    name: str
    extra: str
    runtime: str
    device: str
    threads: tuple[str, ...]
    worker: str
    levels: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, str]:
        """The options of a target that say who computes a call, and how accurately."""
        return f"{self.platform}-threads", f"{self.platform}-accuracy-level"


class GraphKind[Model: ProcessorModel](ProcessorKind[Model]):
    """Processors as an engine runs graphs on them."""

    engine: ClassVar[Engine]
    checked = "run; Arm in emulation"
    packs_weights = True

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """Return the release that the graphs were made or checked with.

        The processor's memory counts once, as the host's.
        """
        return plugin_requirements((self.engine.device,), self.engine.runtime, built_with, 0)

    def candidates(self) -> tuple[Candidate, ...]:
        """Return a candidate for each thread pool that can compute a call."""
        words, (option, _) = self.engine.threads, self.engine.options
        return (Candidate(DEFAULT), *(Candidate(word, {option: word}) for word in words))

    def backend(self) -> Backend:
        """Return the installed engine, with our translation for it."""
        from aotc.engines.onnx_graphs.graph_compiler import GraphBackend

        return GraphBackend(self.engine)
