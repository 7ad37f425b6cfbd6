"""Target files for processors: what all of them have in common, and those that XLA compiles for."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec.structs import replace
from pydantic import Field

from aotc.compile.compiler_protocol import (
    DEFAULT,
    Backend,
    Candidate,
    TargetKind,
    device_target,
    unknown_name,
)
from aotc.compile.cpu import cpu_isa
from aotc.compile.target_model import TRIPLES, TargetModel, Words
from aotc.config.field_types import Size
from aotc.config.toml_document import Document
from aotc_runtime.base.errors import Finding
from aotc_runtime.engines.xla.xla_features import YNN_OPTION
from aotc_runtime.schema.bundle_manifest import Target
from aotc_runtime.system import processor_check


class ProcessorModel(TargetModel):
    """A processor, whatever compiles for it."""

    triple: str
    cpu: str
    features: Annotated[Words, Field(min_length=1)]
    tuning: Words = Field(default_factory=list)
    threads: Annotated[Size, Field(le=4096)]


class CpuModel(ProcessorModel):
    """A processor that XLA compiles for."""

    platform: Literal["cpu"]


class ProcessorKind[Model: ProcessorModel](TargetKind[Model]):
    """Processors, by their features, whatever compiles for them."""

    platform: ClassVar[str]
    triples: ClassVar[tuple[str, ...]] = (*TRIPLES, cpu_isa.ARM_TRIPLE)

    def target(self, model: Model) -> Target:
        """Return the schema value of a target file."""
        return replace(
            device_target(model),
            cpu=model.cpu,
            features=tuple(sorted(set(model.features))),
            tuning=tuple(sorted(set(model.tuning))),
            threads=model.threads,
        )

    def keys(self, target: Target) -> Mapping[str, object]:
        """Return a target file's keys for such processors.

        Features that no code uses are left out, as other machines of the kind may lack them.
        """
        return {
            "cpu": target.cpu,
            "features": [each for each in target.features if each not in cpu_isa.UNUSED],
            "tuning": list(target.tuning),
            "threads": target.threads,
        }

    def check(self, document: Document, model: Model) -> Iterator[Finding]:
        """Yield names that LLVM does not know."""
        if model.triple not in self.triples:
            yield unknown_name(document, ("triple",), "one of", self.triples, model.triple)
        is_arm = model.triple in self.triples and cpu_isa.is_arm(model.triple)
        cpus, features = (
            (cpu_isa.ARM_CPUS, cpu_isa.ARM_FEATURES) if is_arm else (cpu_isa.CPUS, cpu_isa.FEATURES)
        )
        if model.cpu not in cpus:
            what, names = "a processor that LLVM knows", sorted(cpus)
            yield unknown_name(document, ("cpu",), what, names, model.cpu)
        for index, feature in enumerate(model.features):
            if feature not in features:
                what, names = "an LLVM feature without sign", sorted(features)
                yield unknown_name(document, ("features", index), what, names, feature)
        for index, attribute in enumerate(model.tuning):
            if not cpu_isa.is_tuning(attribute):
                what, path = "a tuning attribute", ("tuning", index)
                yield unknown_name(document, path, what, ["prefer-no-gather…"], attribute)

    def for_processor(self, target: Target) -> Target:
        """Return the processor of another engine's target file as a target.

        Features that no code uses are left out: the system does not list all that XLA finds in a
        host. Raises ValueError, with the reason, if this kind's compiler does not support it.
        """
        if target.triple not in self.triples:
            raise ValueError(f"it compiles for {', '.join(self.triples)}")
        used = tuple(each for each in target.features if each not in cpu_isa.UNUSED)
        return replace(target, platform=self.platform, features=used)


_PREFIX = "LIBRARY_FUSION_TYPE_"


def _ynn(*kinds: str) -> dict[str, str]:
    """Return options that give YNNPACK these types of operations, and others to Eigen and XLA."""
    return {YNN_OPTION: ",".join(_PREFIX + kind for kind in kinds)}


_WIDE = {"xla_cpu_prefer_vector_width": "512"}
_O2 = {"xla_backend_optimization_level": "2"}
_LEAN = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
"""Weights of 16 bits are widened one after the other, each where it is used; the default widens all
of them first and so takes twice their size besides."""

_EIGEN = _ynn()
_DOTS = _ynn("INDIVIDUAL_DOT")
_LOOPS = _ynn("ELTWISE", "REDUCE")
_ALL = _ynn("DOT", "ELTWISE", "REDUCE", "INDIVIDUAL_CONVOLUTION")


_BOUND = (
    Candidate("eigen", _EIGEN),
    Candidate("eigen-wide", {**_EIGEN, **_WIDE, **_O2}),
    Candidate("lean", _LEAN, narrow=True),
    Candidate("o2", _O2),
    Candidate("wide", _WIDE),
    Candidate("ynn-all", _ALL),
    Candidate("ynn-dots", {**_DOTS, **_O2}),
    Candidate("ynn-loops", {**_LOOPS, **_WIDE}),
)

CANDIDATES = (
    Candidate(DEFAULT),
    *_BOUND,
    Candidate("captured", captures=True),
    *(
        Candidate(f"captured-{candidate.name}", candidate.options, captures=True)
        for candidate in _BOUND
        if candidate.name not in ("eigen", "lean", "o2", "wide")
    ),
)
"""In order of preference: the default, options alone by name, then those that also capture the
weights, which makes executables larger. docs/concepts/performance.md describes their use. They only
change speed; options that relax arithmetic beyond the default (fast math) are left out.
"""


class CpuKind(ProcessorKind[CpuModel]):
    """Processors that XLA compiles for."""

    model = CpuModel
    platform = "cpu"
    triples = TRIPLES
    checked = "run"
    kernels = ("8-bit activations", "bfloat16 products")

    def candidates(self) -> tuple[Candidate, ...]:
        """Return options of XLA, with and without weights as constants."""
        return CANDIDATES

    def notes(self, target: Target, jaxlib: str) -> tuple[str, ...]:
        """Return a sentence for each CPU feature that this jaxlib needs and the target lacks."""
        floor = processor_check.floor(jaxlib)
        missing = sorted(floor - set(target.features))
        if not missing:
            return ()
        return (
            f"jaxlib {jaxlib} itself needs {', '.join(missing)}: no processor without runs the "
            "bundle",
            *(
                f"built with jaxlib {version} it needs only "
                f"{', '.join(sorted(lower - set(target.features)))} beside the target's features"
                for version, lower in processor_check.FLOORS.items()
                if lower < floor
            ),
        )

    def backend(self) -> Backend:
        """XLA:CPU of the installed jaxlib."""
        from aotc.compile.xla.xla_compiler import XlaBackend

        return XlaBackend()
