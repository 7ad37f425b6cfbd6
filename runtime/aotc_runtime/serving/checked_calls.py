"""Calls that need more than a look-up: arguments are looked at one by one, or results stay on the
device.

Imported when the first such call comes: servers that pass numpy arrays as they were recorded never
need it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.engines.engine_device import Buffer
from aotc_runtime.schema.manifest_labels import passed_leaves, passed_parameters, positional_count
from aotc_runtime.schema.pytrees import Leaf, builder
from aotc_runtime.schema.pytrees import leaves as leaf_indices
from aotc_runtime.serving import foreign_arrays
from aotc_runtime.serving.call_metrics import Answer, CallMetrics, Path
from aotc_runtime.serving.call_signature import bind, signature_of
from aotc_runtime.serving.device_arrays import DeviceArray, as_array
from aotc_runtime.serving.executable_calls import Execution
from aotc_runtime.serving.flattened_arguments import flattener
from aotc_runtime.serving.resident_bundle import ResidentEntryPoint
from aotc_runtime.serving.served_call import Served, Shapes

if TYPE_CHECKING:
    from aotc_runtime.serving.routing.fallback_calls import FallbackCalls


class CheckedCalls:
    """Checks the arguments of one entry point's calls, and makes the calls.

    table: executable by the shapes of what a caller passes; in the manifest's order, and empty once
    the bundle is closed.  started: when a call began, by `perf_counter_ns`.
    """

    def __init__(
        self,
        resident: ResidentEntryPoint,
        table: Mapping[Shapes, Served],
        metrics: CallMetrics,
    ) -> None:
        spec = resident.spec
        self._name, self._spec = resident.name, spec
        self._table, self._metrics = table, metrics
        parameters = passed_parameters(spec)
        self._signature = signature_of(parameters)
        self._count, self._positional = len(parameters), positional_count(parameters)
        self._passed = passed_leaves(spec)
        self._is_all_passed = len(self._passed) == len(spec.inputs)
        self._flatteners = [
            flattener(parameter.tree, f"{resident.name} {parameter.name}")
            for parameter in parameters
        ]
        self._flat = self._is_all_passed and all(isinstance(p.tree, Leaf) for p in parameters)
        inputs = resident.profiles[0].inputs
        self._expected = [(leaf, inputs[leaf].dtype) for leaf in self._passed]
        self._scalars = [aval.shape == () for aval in inputs]
        self.execution = Execution(
            resident.name,
            [index for p in parameters if p.donated for index in leaf_indices(p.tree)],
            metrics.converted,
        )
        self._build = builder(spec.result)
        self._lock = threading.Lock()
        self._resident: ResidentEntryPoint | None = resident
        self._fallback: FallbackCalls | None = None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], started: int) -> Any:
        """numpy arrays, or jax arrays if any argument is one, in the structure of the result."""
        try:
            leaves, is_jax = self._leaves(args, kwargs)
            served = self._exact(leaves)
            if served is None:
                return self.fallback().call(self._shapes(leaves), leaves, is_jax, started)
            result = self._on_host(served, self.execution.execute(served, leaves), is_jax)
        except AotcError as error:
            self._metrics.refused(error.code)
            raise
        served.counter.observe(perf_counter_ns() - started)
        return result

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any], started: int) -> Answer:
        """numpy arrays in the structure of the result, and what gave them."""
        try:
            leaves, _ = self._leaves(args, kwargs)
            served = self._exact(leaves)
            if served is None:
                result, call = self.fallback().answer(self._shapes(leaves), leaves, started)
                return Answer(result, call.path, call.executable)
            result = served.finish(self.execution.execute(served, leaves))
        except AotcError as error:
            self._metrics.refused(error.code)
            raise
        served.counter.observe(perf_counter_ns() - started)
        return Answer(result, Path.EXACT, served.label)

    def answer_with_masks(
        self, arrays: Sequence[Any], masks: Mapping[int, Any], started: int
    ) -> Answer:
        """`answer`, for the arrays of all leaves that a caller passes, of the right dtypes, and
        masks by leaf, in the loader's place.
        """
        leaves: list[Any] = [None] * len(self._scalars)
        for leaf, array in (*zip(self._passed, arrays, strict=True), *masks.items()):
            leaves[leaf] = array
        try:
            result, call = self.fallback().answer(self._shapes(leaves), leaves, started)
        except AotcError as error:
            self._metrics.refused(error.code)
            raise
        return Answer(result, call.path, call.executable)

    def on_device(self, args: tuple[Any, ...], kwargs: dict[str, Any], started: int) -> Any:
        """DeviceArrays in the structure of the result."""
        try:
            leaves, _ = self._leaves(args, kwargs)
            served = self._exact(leaves)
            if served is None:
                return self.fallback().on_device(self._shapes(leaves), leaves, started)
            buffers = self.execution.execute(served, leaves)
        except AotcError as error:
            self._metrics.refused(error.code)
            raise
        result = self._build(
            [DeviceArray(served.device, b, a) for b, a in zip(buffers, served.outputs, strict=True)]
        )
        served.counter.observe(perf_counter_ns() - started)
        return result

    def fallback(self) -> FallbackCalls:
        """The part that serves calls which no profile fits, or refuses them; made on first use."""
        with self._lock:
            if self._resident is None:
                raise closed_error(self._name)
            if self._fallback is None:
                # Servers whose calls fit the profiles never need it.
                from aotc_runtime.serving.routing.fallback_calls import FallbackCalls

                self._fallback = FallbackCalls(
                    self._resident, [*self._table.values()], self.execution, self._metrics
                )
            return self._fallback

    @property
    def compiles(self) -> dict[str, Any] | None:
        """JSON: what was compiled for calls; None without a policy that compiles."""
        return self._fallback.compiles if self._fallback is not None else None

    def close(self) -> None:
        """Refuse further calls; calls that are running end as they would."""
        with self._lock:
            self._resident = None
            fallback, self._fallback = self._fallback, None
        if fallback is not None:
            fallback.close()

    def _shapes(self, leaves: list[Any]) -> Shapes:
        if self._is_all_passed:
            return tuple([leaf.shape for leaf in leaves])
        return tuple([leaves[index].shape for index in self._passed])

    def _exact(self, leaves: list[Any]) -> Served | None:
        """The profile with exactly these sizes; masks and lengths are added to the leaves."""
        served = self._table.get(self._shapes(leaves))
        if served is not None:
            for leaf, array in served.masks:
                leaves[leaf] = array
        return served

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], bool]:
        """The input leaves in order, each a checked numpy array or a DeviceArray; and whether any
        of them was a jax array.
        """
        values: Sequence[Any] = args
        if kwargs or len(args) != self._count or len(args) > self._positional:
            values = bind(self._name, self._signature, args, kwargs, self._spec)
        if self._flat:
            leaves = list(values)
        else:
            leaves = [None] * len(self._scalars)
            for flatten, value in zip(self._flatteners, values, strict=True):
                flatten(value, leaves)
        is_jax = False
        for index, dtype in self._expected:
            leaf = leaves[index]
            # Identity: a dtype of another byte order is another object.
            if type(leaf) is np.ndarray and leaf.dtype is dtype:
                continue
            if type(leaf) is DeviceArray and leaf.dtype == dtype:
                continue
            spec = self._spec.inputs[index]
            where = f"{self._name} {spec.path}"
            if foreign_arrays.is_jax(leaf):
                is_jax = True
                leaf = foreign_arrays.without_key_type(leaf, spec, where)
            leaves[index] = as_array(leaf, dtype, self._scalars[index], where)
        return leaves, is_jax

    def _on_host(self, served: Served, results: list[Buffer], is_jax: bool) -> Any:
        if not is_jax:
            return served.finish(results)
        read = served.device.to_numpy
        arrays = [read(b, a) for b, a in zip(results, served.outputs, strict=True)]
        return self._build(foreign_arrays.to_jax(arrays, self._spec.outputs))


def closed_error(name: str) -> AotcError:
    """The error (AOTC-E633) for calls of a bundle that was closed."""
    return refusal(
        "AOTC-E633",
        name,
        "one that was closed",
        expected="a bundle that is open",
        hint="load it again",
    )
