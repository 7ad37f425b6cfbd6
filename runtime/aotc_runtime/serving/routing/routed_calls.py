"""Calls that are padded, split, or of an executable's own sizes.

Each takes the leaves of a call, masks and lengths among them only where its rows have their own,
and gives its results in order: device buffers, or numpy arrays
where a result had to be cut or joined.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from aotc_runtime.engines.engine_arrays import Aval, Buffer
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.bundle_manifest import EntryPoint, ProfileRecord
from aotc_runtime.serving.call_metrics import Padding, Path
from aotc_runtime.serving.executable_calls import Execution
from aotc_runtime.serving.routing.call_sizes import shapes_at
from aotc_runtime.serving.routing.padded_arrays import cut, pad
from aotc_runtime.serving.routing.padding_masks import Length, Mask
from aotc_runtime.serving.routing.split_calls import axis_of, join, piece
from aotc_runtime.serving.served_call import CallCounter, Served

Array = np.ndarray[Any, Any]
Result = Buffer | Array


NOT_REAL: Array = np.array(False)


class RoutedCall(Protocol):
    """Serves calls of certain sizes.

    Attributes:
        executable: label of the one that does most of the work.
        device: of this executable.
        counter: of the calls, for a profile of exactly their sizes; others are counted by path and
            executable.
    """

    @property
    def counter(self) -> CallCounter | None:
        """The counter of calls of exactly these sizes."""

    @property
    def path(self) -> Path:
        """The path of the call."""

    @property
    def executable(self) -> str:
        """The label of the executable."""

    @property
    def padding(self) -> Padding | None:
        """The padding of the call."""

    @property
    def parts(self) -> int:
        """The number of parts."""

    @property
    def outputs(self) -> tuple[Aval, ...]:
        """The shapes and dtypes of the results."""

    @property
    def device(self) -> Device:
        """The device of the executable."""

    def run(self, leaves: list[Any]) -> list[Result]:
        """Run the call, and return its results in order."""


class Filling(Struct, frozen=True):
    """An input leaf that is padded up to `shape` with `value`, a 0-d array."""

    leaf: int
    shape: tuple[int, ...]
    value: Array


class PaddedCall:
    """A profile that is larger than the call.

    `sizes` are the call's; `fills` has the padding values of inputs, by leaf.
    """

    path = Path.PAD
    counter, parts = None, 0

    def __init__(
        self,
        execution: Execution,
        served: Served,
        spec: EntryPoint,
        record: ProfileRecord,
        sizes: Mapping[str, int],
        fills: Mapping[int, Array],
        masks: Sequence[Mask | Length],
    ) -> None:
        self._execution, self._served, self.device = execution, served, served.device
        self._sizes, self._masks = sizes, masks
        self._shapes = record.input_shapes
        self.executable = served.label
        masked = {mask.leaf for mask in masks}
        shapes = shapes_at(spec.inputs, record.input_shapes, sizes)
        self._fillings = [
            Filling(leaf, wanted, fills[leaf])
            for leaf, (wanted, shape) in enumerate(zip(record.input_shapes, shapes, strict=True))
            if wanted != shape and leaf not in masked
        ]
        self._leaves = frozenset(filling.leaf for filling in self._fillings)
        kept = shapes_at(spec.outputs, record.output_shapes, sizes)
        self._cuts = [
            shape if shape != whole else None
            for whole, shape in zip(record.output_shapes, kept, strict=True)
        ]
        self.outputs = tuple(
            aval if shape == aval.shape else Aval(shape, aval.dtype)
            for shape, aval in zip(kept, served.outputs, strict=True)
        )
        real = sum(prod(shapes[leaf]) for leaf in self._leaves)
        whole = sum(prod(record.input_shapes[leaf]) for leaf in self._leaves)
        flops = record.cost.flops * (whole - real) // whole if whole else 0
        self.padding = Padding(real, whole - real, flops)

    def run(self, leaves: list[Any]) -> list[Result]:
        """Run the call, and return its results in order."""
        execution, served = self._execution, self._served
        with execution.on_host(leaves, served.label, self._leaves) as given:
            for filling in self._fillings:
                given[filling.leaf] = pad(given[filling.leaf], filling.shape, filling.value)
            for mask in self._masks:
                leaf, shape = mask.leaf, self._shapes[mask.leaf]
                if given[leaf] is None:
                    given[leaf] = mask.array(shape, self._sizes)
                elif given[leaf].shape != shape:
                    given[leaf] = pad(given[leaf], shape, NOT_REAL)
            buffers = execution.execute(served, given)
            read = served.device.to_numpy
            return [
                buffer if shape is None else cut(read(buffer, aval), shape)
                for buffer, shape, aval in zip(buffers, self._cuts, served.outputs, strict=True)
            ]


class SplitCall:
    """Calls one after the other, along one dimension."""

    path = Path.SPLIT
    counter = None

    def __init__(
        self,
        execution: Execution,
        spec: EntryPoint,
        dimension: str,
        parts: Sequence[tuple[int, RoutedCall]],
        outputs: tuple[Aval, ...],
    ) -> None:
        self._execution = execution
        self._parts = parts
        self._in = {
            leaf: axis
            for leaf, tensor in enumerate(spec.inputs)
            if (axis := axis_of(tensor.shape, dimension)) is not None
        }
        self._out = [axis_of(tensor.shape, dimension) for tensor in spec.outputs]
        self._leaves = execution.donated.union(self._in)
        self.outputs = outputs
        self.parts = len(parts)
        self.executable, self.device = parts[0][1].executable, parts[0][1].device
        paddings = [call.padding for _, call in parts if call.padding is not None]
        self.padding = sum(paddings, Padding()) if paddings else None

    def run(self, leaves: list[Any]) -> list[Result]:
        """Run the call, and return its results in order."""
        with self._execution.on_host(leaves, self.executable, self._leaves) as given:
            found: list[list[Array]] = []
            start = 0
            for size, call in self._parts:
                pieces = [
                    leaf
                    if leaf is None or (axis := self._in.get(index)) is None
                    else piece(leaf, axis, start, start + size)
                    for index, leaf in enumerate(given)
                ]
                results = zip(call.run(pieces), call.outputs, strict=True)
                found.append([on_host(call.device, result, aval) for result, aval in results])
                start += size
            return [
                join([part[index] for part in found], axis) for index, axis in enumerate(self._out)
            ]


def on_host(device: Device, result: Result, aval: Aval) -> Array:
    """Return a result as numpy."""
    return result if type(result) is np.ndarray else device.to_numpy(result, aval)
