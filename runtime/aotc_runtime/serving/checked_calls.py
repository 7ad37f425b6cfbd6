"""Calls that need more than a look-up.

Arguments are checked one by one, or results stay on the device. Imported for the first such call;
servers that pass plain numpy arrays never need it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.manifest_labels import passed_leaves, passed_parameters, positional_count
from aotc_runtime.schema.pytrees import Leaf, builder
from aotc_runtime.schema.pytrees import leaves as leaf_indices
from aotc_runtime.schema.tensor_text import KEY_DTYPES
from aotc_runtime.serving.call_metrics import Answer, CallMetrics, Path
from aotc_runtime.serving.call_signature import bind, signature_of
from aotc_runtime.serving.device_arrays import DeviceArray, as_array
from aotc_runtime.serving.executable_calls import ExactCall, Execution
from aotc_runtime.serving.flattened_arguments import flattener
from aotc_runtime.serving.resident_bundle import ResidentEntryPoint
from aotc_runtime.serving.served_call import Served, Shapes

if TYPE_CHECKING:
    from aotc_runtime.serving.routing.fallback_calls import FallbackCalls
    from aotc_runtime.serving.routing.routed_calls import RoutedCall


class CheckedCalls:
    """Checks the arguments of one entry point's calls, and makes the calls.

    `table` has executables by the shapes of the caller's arguments, in the manifest's order; that
    of a range is added for each size. `started` is when a call began, by `perf_counter_ns`.
    """

    def __init__(
        self, resident: ResidentEntryPoint, table: dict[Shapes, Served], metrics: CallMetrics
    ) -> None:
        spec = resident.spec
        self._name, self._spec = resident.name, spec
        self._metrics = metrics
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
            metrics.count_conversion,
        )
        if self.execution.donated:
            # Imported now: a call that fails for want of memory gives its arguments back by it.
            for served in table.values():
                _ = served.device.features
        self._table = table
        self._exact = {
            shapes: ExactCall(self.execution, served, Path.EXACT, served.label, served.counter)
            for shapes, served in table.items()
        }
        self._build = builder(spec.result)
        self._lock = threading.Lock()
        self._resident: ResidentEntryPoint | None = resident
        self._fallback: FallbackCalls | None = None

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any], started: int) -> Answer:
        """Make a call, and return results in the structure of the result.

        They are numpy arrays, or jax arrays if any argument is one.
        """
        return self._answer(lambda: self._leaves(args, kwargs), self._on_host, started)

    def on_device(self, args: tuple[Any, ...], kwargs: dict[str, Any], started: int) -> Any:
        """Make a call that gives DeviceArrays, in the structure of the result."""
        return self._answer(lambda: self._leaves(args, kwargs), self._keep, started).result

    def answer_with_masks(
        self, arrays: Sequence[Any], masks: Mapping[int, Any], started: int
    ) -> Answer:
        """Make a call with checked arrays of all leaves, and masks by leaf.

        The masks replace those of the loader.
        """
        leaves: list[Any] = [None] * len(self._scalars)
        for leaf, array in (*zip(self._passed, arrays, strict=True), *masks.items()):
            leaves[leaf] = array
        return self._answer(lambda: (leaves, False), self._on_host, started)

    def _answer(
        self,
        take: Callable[[], tuple[list[Any], bool]],
        give: Callable[[RoutedCall, list[Any], bool], Any],
        started: int,
    ) -> Answer:
        """Make and count a call.

        `take` returns its leaves, and whether one was a jax array. `give` makes the result from the
        routed call and its results in order.
        """
        try:
            leaves, is_jax = take()
            if self._is_all_passed:
                shapes = tuple([leaf.shape for leaf in leaves])
            else:
                shapes = tuple([leaves[index].shape for index in self._passed])
            call: RoutedCall | None = self._exact.get(shapes)
            if call is None:
                call = self.fallback().find(shapes)
            result = give(call, call.run(leaves), is_jax)
        except AotcError as error:
            self._metrics.count_refusal(error.code)
            raise
        taken = perf_counter_ns() - started
        if call.counter is not None:
            call.counter.observe(taken)
        else:
            self._metrics.count(call.path, call.executable, call.padding, call.parts, taken)
        return Answer(result, call.path, call.executable)

    def _on_host(self, call: RoutedCall, results: list[Any], is_jax: bool) -> Any:
        if isinstance(call, ExactCall) and not is_jax:
            return call.served.finish(results)
        read = call.device.to_numpy
        arrays = [
            result if type(result) is np.ndarray else read(result, aval)
            for result, aval in zip(results, call.outputs, strict=True)
        ]
        if is_jax:
            specs = self._spec.outputs
            arrays = [_to_jax(array, spec) for array, spec in zip(arrays, specs, strict=True)]
        return self._build(arrays)

    def _keep(self, call: RoutedCall, results: list[Any], _: bool) -> Any:
        """DeviceArrays; what had to be cut or joined is put back on the device."""
        device = call.device
        return self._build(
            [
                DeviceArray(
                    device, device.put(result, aval) if type(result) is np.ndarray else result, aval
                )
                for result, aval in zip(results, call.outputs, strict=True)
            ]
        )

    def fallback(self) -> FallbackCalls:
        """Return the part for calls that no profile fits; made on first use."""
        with self._lock:
            if self._resident is None:
                raise closed_error(self._name)
            if self._fallback is None:
                # Servers whose calls fit the profiles never need it.
                from aotc_runtime.serving.routing.fallback_calls import FallbackCalls

                self._fallback = FallbackCalls(
                    self._resident, self._exact, self._table, self.execution, self._metrics
                )
            return self._fallback

    def close(self) -> None:
        """Refuse further calls; calls that are running end as they would."""
        with self._lock:
            self._resident = None
            self._exact = {}
            fallback, self._fallback = self._fallback, None
        if fallback is not None:
            fallback.close()

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], bool]:
        """Return the input leaves in order, and whether any was a jax array.

        Each is a checked numpy array or a DeviceArray.
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
            if _is_jax(leaf):
                is_jax = True
                leaf = _without_key_type(leaf, spec, where)
            leaves[index] = as_array(leaf, dtype, self._scalars[index], where)
        return leaves, is_jax


def closed_error(name: str) -> AotcError:
    """Return the error (AOTC-E633) for calls of a bundle that was closed."""
    return refusal("AOTC-E633", name, "")


# Arrays of a jax that the server itself imported; nothing here imports it.


def _is_jax(value: Any) -> bool:
    """Return whether a value is a jax array."""
    array = getattr(sys.modules.get("jax"), "Array", None)
    return array is not None and isinstance(value, array)


def _without_key_type(value: Any, spec: TensorSpec, where: str) -> Any:
    """Return the data of a jax array of typed random keys; any other jax array as it is.

    Raises ShapeError (AOTC-E606) for keys where the input takes none, or those of another
    implementation, which would read other words into the same data.
    """
    jax = sys.modules["jax"]
    if not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value
    if spec.key_impl is not None and jax.random.key_impl(value) == spec.key_impl.value:
        return jax.random.key_data(value)
    expected = spec.dtype.value
    hint = "pass `jax.random.key_data(key)`, an array of uint32"
    if spec.key_impl is not None:
        expected = KEY_DTYPES[spec.key_impl]
        hint = f"make the key with `jax.random.key(seed, impl='{spec.key_impl.value}')`"
    raise refusal("AOTC-E606", where, str(value.dtype), expected=expected, hint=hint)


def _to_jax(array: np.ndarray[Any, Any], spec: TensorSpec) -> Any:
    """Return a jax array, or typed keys for their data; numpy's where jax's settings narrow it."""
    jax = sys.modules["jax"]
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        return array
    if spec.key_impl is not None:
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=spec.key_impl.value)
    return jax.numpy.asarray(array)
