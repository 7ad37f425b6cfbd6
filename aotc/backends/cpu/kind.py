"""Target files for processors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import Field

from aotc.backends.cpu import isa
from aotc.backends.protocol import Backend, TargetKind, device_target, unknown_name
from aotc.backends.target_model import TargetModel, Words
from aotc.config.document import Document
from aotc.config.fields import Size
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import Target
from aotc_runtime.system import processor


class CpuModel(TargetModel):
    """A processor."""

    platform: Literal["cpu"]
    triple: str
    cpu: str
    features: Annotated[Words, Field(min_length=1)]
    tuning: Words = Field(default_factory=list)
    threads: Annotated[Size, Field(le=4096)]


class CpuKind(TargetKind[CpuModel]):
    """Processors, by their features."""

    model = CpuModel
    checked = "run"

    def target(self, model: CpuModel) -> Target:
        """The schema value of a target file."""
        return replace(
            device_target(model),
            cpu=model.cpu,
            features=tuple(sorted(set(model.features))),
            tuning=tuple(sorted(set(model.tuning))),
            threads=model.threads,
        )

    def keys(self, target: Target) -> Mapping[str, object]:
        """The keys of a target file for such processors: their features without those that no code
        is made of, which other machines of the kind may lack.
        """
        return {
            "cpu": target.cpu,
            "features": [each for each in target.features if each not in isa.UNUSED],
            "tuning": list(target.tuning),
            "threads": target.threads,
        }

    def check(self, document: Document, model: CpuModel) -> Iterator[Finding]:
        """Names that LLVM does not know."""
        yield from super().check(document, model)
        if model.cpu not in isa.CPUS:
            known = ", ".join(isa.CPUS)
            yield unknown_name(document, ("cpu",), "a processor LLVM knows", known, model.cpu)
        for index, feature in enumerate(model.features):
            if feature not in isa.FEATURES:
                known, path = ", ".join(sorted(isa.FEATURES)), ("features", index)
                what = "an LLVM feature without sign"
                yield unknown_name(document, path, what, known, feature)
        for index, attribute in enumerate(model.tuning):
            if not isa.is_tuning(attribute):
                what, path = "a tuning attribute", ("tuning", index)
                yield unknown_name(document, path, what, "prefer-no-gather…", attribute)

    def notes(self, target: Target, jaxlib: str) -> tuple[str, ...]:
        """A sentence for each CPU feature set that this jaxlib needs beyond what the target
        promises.
        """
        floor = processor.floor(jaxlib)
        missing = sorted(floor - set(target.features))
        if not missing:
            return ()
        return (
            f"jaxlib {jaxlib} itself needs {', '.join(missing)}: no processor without runs the "
            "bundle",
            *(
                f"built with jaxlib {version} it needs only "
                f"{', '.join(sorted(lower - set(target.features)))} beside the target's features"
                for version, lower in processor.FLOORS.items()
                if lower < floor
            ),
        )

    def backend(self) -> Backend:
        """XLA:CPU of the installed jaxlib."""
        from aotc.backends.xla.compile import XlaBackend

        return XlaBackend()
