"""Evaluation data in the scratch folder, and the batches in which they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from aotc.base.errors import refusal
from aotc.base.msgpack_values import ValueFile
from aotc.check.plain_structures import Leaf, array_of, leaf_of
from aotc.check.trial_records import read_arrays
from aotc_runtime.schema.manifest_labels import sizes_text

type Array = np.ndarray[Any, Any]

PLAIN_JAX = ""
"""The name of plain JAX among the targets of `Prepared.scores`."""


class Block(Struct, frozen=True):
    """The samples of one file of the data; `sizes` are by dimension, without that of samples."""

    samples: int
    sizes: dict[str, int]


class Batch(NamedTuple):
    """The samples of one call: inputs by path, labels, sizes by dimension, and their number."""

    inputs: dict[str, Array]
    labels: Array
    sizes: dict[str, int]
    samples: int


class Prepared(Struct, frozen=True):
    """The data of an entry point.

    Attributes:
        entry_point: Its name.
        where: The data's location in the manifest, for messages.
        metric: As bundles name it.
        output: Index of the result that is scored.
        axis: First axis of that result: a dimension, or a number of samples.
        counted: Paths of the inputs whose first axis counts samples.
        pads: Dimensions whose sizes may be smaller than those of a profile.
        blocks: Of the data, in order.
        digest: Of the data.
        code: Digest of the file with the metric; "" for a built-in one.
        scores: Rows of the metric by target; None while its results wait for a user's metric.
    """

    entry_point: str
    where: str
    metric: str
    output: int
    axis: int | str
    counted: tuple[str, ...]
    pads: tuple[str, ...]
    blocks: tuple[Block, ...]
    digest: str
    code: str
    scores: dict[str, Leaf | None] = {}

    @property
    def samples(self) -> int:
        """The number of samples in all blocks."""
        return sum(block.samples for block in self.blocks)

    def with_rows(self, target: str, rows: Leaf | None) -> Prepared:
        """Return the data with the rows of one more target."""
        return replace(self, scores={**self.scores, target: rows})

    def counts(self, block: Block, profiles: Sequence[Mapping[str, int]]) -> list[int] | None:
        """Return the number of samples of each call; None if no profiles serve all of them."""
        if isinstance(self.axis, int):
            return cut(block.samples, [self.axis], pads=False)
        sizes = {each[self.axis] for each in profiles if self.serves(each, block.sizes)}
        return cut(block.samples, [*sizes], pads=self.axis in self.pads) if sizes else None

    def serves(self, profile: Mapping[str, int], sizes: Mapping[str, int]) -> bool:
        """Return whether a profile has these sizes, or larger ones that calls are padded to."""
        return all(
            0 < size <= profile[name] if name in self.pads else size == profile[name]
            for name, size in sizes.items()
        )

    def batches(
        self, folder: Path, profiles: Sequence[Mapping[str, int]], where: str
    ) -> Iterator[Batch]:
        """Yield the samples of each call of these profiles.

        Raises CaptureError (AOTC-E847) for samples that do not fit into the profiles.
        """
        for number, block in enumerate(self.blocks):
            counts = self.counts(block, profiles)
            if counts is None:
                at = f" at {sizes_text(block.sizes)}" if block.sizes else ""
                found = f"{block.samples} samples{at}"
                cause = "samples-do-not-fill-the-profiles"
                expected = f"batches of {'; '.join(map(sizes_text, profiles))}"
                raise refusal("AOTC-E847", where, found, cause=cause, expected=expected)
            arrays = read_arrays(block_file(folder, self.entry_point, number))
            labels = arrays.pop(LABELS)
            start = 0
            for count in counts:
                part = slice(start, start + count)
                inputs = {
                    path: array[part] if path in self.counted else array
                    for path, array in arrays.items()
                }
                sizes = {self.axis: count} if isinstance(self.axis, str) else {}
                yield Batch(inputs, labels[part], {**block.sizes, **sizes}, count)
                start += count


def cut(samples: int, sizes: Sequence[int], *, pads: bool) -> list[int] | None:
    """Cut samples into batches of these sizes, the largest first; None if some are left over.

    `sizes` are those of executables; `pads` allows a last, smaller batch.
    """
    found: list[int] = []
    for size in sorted(sizes, reverse=True):
        found += [size] * (samples // size)
        samples %= size
    if samples and not pads:
        return None
    return [*found, *([samples] if samples else [])]


LABELS = "/labels"
"""The name of labels in a block's file, beside inputs by path, which begin with a parameter."""


def block_file(folder: Path, entry_point: str, number: int) -> Path:
    """Return the safetensors file with the inputs and labels of a block."""
    return folder / f"evaluation.{entry_point}.{number:06}.safetensors"


def _results_folder(folder: Path, target: str, entry_point: str) -> Path:
    return folder / f"evaluated.{target}.{entry_point}"


def write_results(
    folder: Path, target: str, entry_point: str, results: Iterator[tuple[Array, Array]]
) -> None:
    """Write the results of a target's executables and their labels, for a user's metric."""
    own = _results_folder(folder, target, entry_point)
    own.mkdir()
    for number, (output, labels) in enumerate(results):
        file = ValueFile(own / f"{number:06}.msgpack", tuple[Leaf, Leaf])
        file.write((leaf_of(output), leaf_of(labels)))


def read_results(folder: Path, target: str, entry_point: str) -> Iterator[tuple[Array, Array]]:
    """Yield what `write_results` wrote."""
    for path in sorted(_results_folder(folder, target, entry_point).iterdir()):
        output, labels = ValueFile(path, tuple[Leaf, Leaf]).read()
        yield array_of(output), array_of(labels)


def prepared_file(folder: Path) -> ValueFile[list[Prepared]]:
    """Return the file with the description of the data of all entry points."""
    return ValueFile(folder / "evaluations.msgpack", list[Prepared])
