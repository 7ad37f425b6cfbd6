"""Evaluation data in the scratch folder, and the batches in which they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from aotc.base.msgpack_values import unpacked
from aotc.check.plain_structures import Leaf, array_of, leaf_of
from aotc_runtime.schema.bundle_manifest import TensorSpec

type Array = np.ndarray[Any, Any]


class Rows(Struct, frozen=True):
    """The rows that a metric computes of samples: float64 [samples, columns]."""

    columns: int
    data: bytes

    @classmethod
    def of(cls, rows: Array) -> Rows:
        """Return an array for another process."""
        return cls(rows.shape[1], np.ascontiguousarray(rows, np.float64).tobytes())

    @property
    def array(self) -> Array:
        """The array."""
        return np.frombuffer(self.data, np.float64).reshape(-1, self.columns)


class Block(Struct, frozen=True):
    """The samples of one file of the data; `sizes` are by dimension, without that of samples."""

    samples: int
    sizes: dict[str, int]


class Prepared(Struct, frozen=True):
    """The data of an entry point.

    Attributes:
        entry_point: Its name.
        metric: As bundles name it.
        output: Index of the result that is scored.
        target: Name of the array of labels.
        axis: First axis of that result: a dimension, or a number of samples.
        pads: Whether a last batch may be padded.
        blocks: Of the data, in order.
        digest: Of the data.
        code: Digest of the file with the metric; "" for a built-in one.
        reference: Rows of plain JAX.
    """

    entry_point: str
    metric: str
    output: int
    target: str
    axis: int | str
    pads: bool
    blocks: tuple[Block, ...]
    digest: str
    code: str
    reference: Rows

    @property
    def samples(self) -> int:
        """The number of samples in all blocks."""
        return sum(block.samples for block in self.blocks)

    def batches(self, block: Block, profiles: Sequence[Mapping[str, int]]) -> list[int] | None:
        """Return the number of samples of each call; None if no profiles serve all of them."""
        if isinstance(self.axis, int):
            return cut(block.samples, [self.axis], pads=False)
        axis = self.axis
        sizes = [
            each[axis] for each in profiles if {**each, **block.sizes, axis: each[axis]} == {**each}
        ]
        return cut(block.samples, sizes, pads=self.pads) if sizes else None


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


def has_samples(spec: TensorSpec, axis: int | str) -> bool:
    """Return whether the first axis of an input counts samples."""
    return bool(spec.shape) and spec.shape[0] == axis


def input_of(
    arrays: Mapping[str, Array], spec: TensorSpec, axis: int | str, samples: slice
) -> Array:
    """Return an input of a call: of these samples of a block, or whole if it has none."""
    array = arrays[f"inputs/{spec.path}"]
    return array[samples] if has_samples(spec, axis) else array


def block_file(folder: Path, entry_point: str, number: int) -> Path:
    """Return the safetensors file with the inputs and labels of a block."""
    return folder / f"evaluation.{entry_point}.{number:06}.safetensors"


def _output_file(folder: Path, target: str, entry_point: str, number: int) -> Path:
    return folder / f"evaluated.{target}.{entry_point}.{number:06}.msgpack"


def write_output(folder: Path, target: str, entry_point: str, number: int, output: Array) -> None:
    """Write the result of a block by a target's executables."""
    leaf = leaf_of(output, is_number=False)
    data = msgspec.msgpack.encode(leaf)
    _output_file(folder, target, entry_point, number).write_bytes(data)


def read_output(folder: Path, target: str, entry_point: str, number: int) -> Array:
    """Return what `write_output` wrote."""
    data = _output_file(folder, target, entry_point, number).read_bytes()
    return array_of(unpacked(data, Leaf))


def targets_with_outputs(folder: Path, entry_point: str) -> list[str]:
    """Return the targets with results of an entry point that no metric has scored yet."""
    suffix = f".{entry_point}.{0:06}.msgpack"
    return sorted(
        path.name.removeprefix("evaluated.").removesuffix(suffix)
        for path in folder.glob(f"evaluated.*{suffix}")
    )


def write_prepared(folder: Path, prepared: Sequence[Prepared]) -> None:
    """Write the description of the data of all entry points."""
    (folder / "evaluations.msgpack").write_bytes(msgspec.msgpack.encode(list(prepared)))


def read_prepared(folder: Path) -> list[Prepared]:
    """Return what `write_prepared` wrote."""
    return unpacked((folder / "evaluations.msgpack").read_bytes(), list[Prepared])


def write_scores(folder: Path, scores: Mapping[str, Mapping[str, Rows]]) -> None:
    """Write rows by target and entry point."""
    (folder / "scores.msgpack").write_bytes(msgspec.msgpack.encode(scores))


def read_scores(folder: Path) -> dict[str, dict[str, Rows]]:
    """Return what `write_scores` wrote."""
    return unpacked((folder / "scores.msgpack").read_bytes(), dict[str, dict[str, Rows]])


def slices(batches: Sequence[int]) -> Iterator[slice]:
    """Yield the samples of each batch."""
    start = 0
    for size in batches:
        yield slice(start, start + size)
        start += size
