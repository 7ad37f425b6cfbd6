"""Text of an entry point: StableHLO as it was traced, or HLO as XLA optimized it.

Both are read from the bundle's bytes; nothing is loaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aotc.bundle.read.bundle_review import Review, ReviewedExecutable, chosen
from aotc.compile.mlir.module_texts import Form, texts
from aotc.compile.xla import xla_objects
from aotc_runtime.schema.manifest_labels import label

NO_HLO = "the executable holds no optimized HLO in a layout that is known"


@dataclass(frozen=True, slots=True)
class Representation:
    """Text of one stage.

    `digest` is that of the module or executable that it was read from, which serves these targets.
    `text` is empty for an executable of unknown layout.
    """

    stage: Form
    entry_point: str
    sizes: Mapping[str, int]
    targets: tuple[str, ...]
    digest: str
    text: str

    def title(self) -> str:
        """predict[batch=8] for cpu-x86-64-v3, stablehlo, sha256:0123456789ab."""
        place = label(self.entry_point, self.sizes)
        return f"{place} for {', '.join(self.targets)}, {self.stage}, {self.digest[:19]}"


def explain(
    review: Review,
    entry_point: str,
    stage: Form,
    sizes: Mapping[str, int] | None,
    target: str | None,
) -> tuple[Representation, ...]:
    """Return one stage of an entry point.

    Raises UsageError: AOTC-E055 what is asked for is not there, E057 it cannot be shown.

    Args:
        review: the bundle.
        entry_point: its name.
        stage: the representation.
        sizes: of the profiles to show; None for all.
        target: the only one to show; None for all.
    """
    grouped: dict[str, list[ReviewedExecutable]] = {}
    for executable in chosen(review, entry_point, sizes, target):
        record = executable.record
        read = record.module if stage is Form.STABLEHLO else record.executable
        grouped.setdefault(read.digest, []).append(executable)
    data = {digest: bytes(review.contents.blobs[digest]) for digest in grouped}
    if stage is Form.HLO:
        found = {digest: xla_objects.optimized_module(each) for digest, each in data.items()}
        data = {digest: module for digest, module in found.items() if module is not None}
    made = texts([(stage, module) for module in data.values()], f"{entry_point} of {review.bundle}")
    text = dict.fromkeys(grouped, "") | dict(zip(data, made, strict=True))
    return tuple(
        Representation(
            stage=stage,
            entry_point=entry_point,
            sizes=executables[0].record.sizes,
            targets=tuple(executable.target for executable in executables),
            digest=digest,
            text=text[digest],
        )
        for digest, executables in grouped.items()
    )


def explain_report(review: Review, explained: Sequence[Representation]) -> dict[str, Any]:
    """Return the document of `aotc explain --json`."""
    return {
        "bundle": review.bundle,
        "root_digest": review.root_digest,
        "signatures_verified": review.verified,
        "signers": list(review.signers),
        "representations": [asdict(found) | {"text": found.text or None} for found in explained],
    }


def explain_lines(explained: Sequence[Representation]) -> Iterator[str]:
    """Yield each text below its title; `//` begins a comment in both representations."""
    for number, found in enumerate(explained):
        yield from ["", f"// {found.title()}"][not number :]
        yield from (found.text.rstrip() or f"// {NO_HLO}").split("\n")
