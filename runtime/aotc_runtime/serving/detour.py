"""Calls that no profile fits, from their leaves to their results, each counted.

Imported when the first such call comes, or at load for an entry point that has a policy for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from aotc_runtime.serving import foreign_arrays, trees
from aotc_runtime.serving.arrays import DeviceArray
from aotc_runtime.serving.execution import Execution, Served
from aotc_runtime.serving.outside import Outside
from aotc_runtime.serving.resident import ResidentEntryPoint
from aotc_runtime.serving.sizes import Shapes
from aotc_runtime.serving.tallies import Tallies
from aotc_runtime.serving.ways import Result, Way, on_host


class Detour:
    """Serves one entry point's calls outside of its profiles, whose executables are `served`.

    started: of a call, by `perf_counter_ns`. Raises what `Outside.find` and `Way.run` raise.
    """

    def __init__(
        self,
        resident: ResidentEntryPoint,
        served: Sequence[Served],
        execution: Execution,
        tallies: Tallies,
    ) -> None:
        self._spec = resident.spec
        self._build = trees.builder(resident.spec.result)
        self._execution, self._tallies = execution, tallies
        self._outside = Outside(resident, served, execution, tallies)

    def call(self, shapes: Shapes, leaves: list[Any], is_jax: bool, started: int) -> Any:
        """numpy arrays, or jax arrays, in the structure of the result."""
        way = self._outside.find(shapes)
        return self._finished(way, way.run(leaves), is_jax, started)

    def on_device(self, shapes: Shapes, leaves: list[Any], started: int) -> Any:
        """DeviceArrays; what had to be cut or joined is put back on the device."""
        way = self._outside.find(shapes)
        device = self._execution.device
        arrays = [
            DeviceArray(
                device, device.put(result, aval) if type(result) is np.ndarray else result, aval
            )
            for result, aval in zip(way.run(leaves), way.outputs, strict=True)
        ]
        self._count(way, started)
        return self._build(arrays)

    def later(
        self, shapes: Shapes, leaves: list[Any], is_jax: bool, started: int
    ) -> Callable[[], Any]:
        """The call, of copies of its arguments."""
        way = self._outside.find(shapes)
        copied = self._execution.copied(leaves, way.executable)

        def work() -> Any:
            with copied as copies:
                results = way.run(copies)
            return self._finished(way, results, is_jax, started)

        return work

    @property
    def compiles(self) -> dict[str, Any] | None:
        """JSON: what was compiled for calls, if the entry point has a policy that compiles."""
        compiler = self._outside.compiler
        return compiler.report() if compiler is not None else None

    def close(self) -> None:
        """Start no more compilations; calls that are on their way end as they would."""
        self._outside.close()

    def _finished(self, way: Way, results: list[Result], is_jax: bool, started: int) -> Any:
        device = self._execution.device
        arrays = [on_host(device, r, aval) for r, aval in zip(results, way.outputs, strict=True)]
        leaves = foreign_arrays.to_jax(arrays, self._spec.outputs) if is_jax else arrays
        result = self._build(leaves)
        self._count(way, started)
        return result

    def _count(self, way: Way, started: int) -> None:
        taken = perf_counter_ns() - started
        self._tallies.count(way.path, way.executable, way.padding, way.parts, taken)
