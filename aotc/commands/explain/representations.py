"""Text of an entry point: StableHLO as it was traced, read from the bundle's bytes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aotc.bundle.read.bundle_review import Review, ReviewedExecutable, chosen
from aotc.compile.mlir.module_texts import texts
from aotc_runtime.schema.manifest_labels import label


@dataclass(frozen=True, slots=True)
class Representation:
    """Text of a module.

    `digest` is that of the module that it was read from, which serves these targets.
    """

    stage: str
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
    review: Review, entry_point: str, sizes: Mapping[str, int] | None, target: str | None
) -> tuple[Representation, ...]:
    """Return the modules of an entry point.

    Raises UsageError: AOTC-E055 what is asked for is not there, E057 it cannot be shown.

    Args:
        review: the bundle.
        entry_point: its name.
        sizes: of the profiles to show; None for all.
        target: the only one to show; None for all.
    """
    grouped: dict[str, list[ReviewedExecutable]] = {}
    for executable in chosen(review, entry_point, sizes, target):
        grouped.setdefault(executable.record.module.digest, []).append(executable)
    data = [bytes(review.contents.blobs[digest]) for digest in grouped]
    made = texts(data, f"{entry_point} of {review.bundle}")
    return tuple(
        Representation(
            stage="stablehlo",
            entry_point=entry_point,
            sizes=executables[0].record.sizes,
            targets=tuple(executable.target for executable in executables),
            digest=digest,
            text=text,
        )
        for (digest, executables), text in zip(grouped.items(), made, strict=True)
    )


def explain_report(review: Review, explained: Sequence[Representation]) -> dict[str, Any]:
    """Return the document of `aotc explain --json`."""
    return {
        "bundle": review.bundle,
        "root_digest": review.root_digest,
        "signatures_verified": review.verified,
        "signers": list(review.signers),
        "representations": [asdict(found) for found in explained],
    }


def explain_lines(explained: Sequence[Representation]) -> Iterator[str]:
    """Yield each text below its title; `//` begins a comment."""
    for number, found in enumerate(explained):
        yield from ["", f"// {found.title()}"][not number :]
        yield from found.text.rstrip().split("\n")
