"""Run fixtures through their executables, and compare results with references.

Each executable also runs with another input. A `Difference` is the result of a comparison.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from aotc_runtime.base import ulps
from aotc_runtime.engines.engine_arrays import Array, Buffer
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.bundle_manifest import EntryPoint, TensorSpec
from aotc_runtime.serving.resident_bundle import ResidentBundle, ResidentEntryPoint, ResidentProfile


class Difference(Struct, frozen=True):
    """The numerical difference of a result from its reference.

    Attributes:
        max_abs, max_rel: largest errors, inf if only one side is finite.
        ulp_max: largest distance in units in the last place.
        elements: numbers compared.
        within: whether every element satisfies |actual - expected| <= atol + rtol * |expected|;
            integers and booleans must be equal.
        excess: largest error as a multiple of its allowance, for ranking.
        worst: of several arrays, the path of the one with the largest excess.
    """

    max_abs: float
    max_rel: float
    ulp_max: int
    elements: int
    within: bool
    excess: float
    worst: str = ""

    def __str__(self) -> str:
        relative = f"max rel error {self.max_rel:.3g}, {ulps(self.ulp_max)} ulp"
        return f"max abs error {self.max_abs:.3g}, {relative}"


def over_all(differences: Sequence[tuple[str, Difference]]) -> Difference:
    """Return the difference of several arrays together, from differences with the arrays' paths."""
    every = [difference for _, difference in differences]
    worst, _ = max(
        differences, key=lambda each: (not each[1].within, each[1].excess), default=("", None)
    )
    return Difference(
        max_abs=max((d.max_abs for d in every), default=0.0),
        max_rel=max((d.max_rel for d in every), default=0.0),
        ulp_max=max((d.ulp_max for d in every), default=0),
        elements=sum(d.elements for d in every),
        within=all(d.within for d in every),
        excess=max((d.excess for d in every), default=0.0),
        worst=worst,
    )


def compare(actual: Array, expected: Array, rtol: float, atol: float) -> Difference:
    """Compare two arrays of one shape and dtype. NaN equals NaN, an infinity equals itself."""
    elements = actual.size
    differ = _differ(actual, expected)
    if not differ.any():
        return Difference(0.0, 0.0, 0, elements, True, 0.0)
    # The rest is the same to the bit and adds nothing; it is often most of a large result.
    actual, expected = actual.reshape(-1)[differ], expected.reshape(-1)[differ]
    from aotc_runtime.serving.number_distance import distance

    max_abs, max_rel, ulp_max, within, excess = distance(actual, expected, rtol, atol)
    return Difference(max_abs, max_rel, ulp_max, elements, within, excess)


def _differ(actual: Array, expected: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Flat mask of the elements whose bits differ, compared without arithmetic."""
    size = min(actual.dtype.itemsize, 8)
    rows = (
        np.ascontiguousarray(array).reshape(-1, 1).view(f"u{size}") for array in (actual, expected)
    )
    differ: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.not_equal(*rows).any(axis=1)
    return differ


WARM_SECONDS_MAX = 0.01
"""An executable whose fixture takes longer is not called again, neither to compare the results of
two calls to the bit nor to warm it up, which would save its first call a fraction of a millisecond.
"""


class Ran(Struct, frozen=True):
    """The run of one fixture.

    Attributes:
        difference: over all outputs.
        is_quick: whether the call took at most WARM_SECONDS_MAX.
        changed: path of an output that differs in a second call with the same inputs, or None.
    """

    difference: Difference
    inputs: list[Array]
    is_quick: bool
    changed: str | None


def run_all(resident: ResidentBundle) -> Iterator[tuple[ResidentProfile, Ran]]:
    """Run every executable on its fixture. Raises what `run_fixture` raises."""
    for entry_point in resident.entry_points.values():
        for profile in entry_point.profiles:
            yield profile, run_fixture(resident, entry_point, profile)


def run_fixture(
    resident: ResidentBundle, entry_point: ResidentEntryPoint, profile: ResidentProfile
) -> Ran:
    """Run one of an entry point's executables on its fixture.

    Raises BackendError (AOTC-E755) if the engine fails, ReadinessError (AOTC-E702) for a fixture
    that does not fit its executable. A result beyond its tolerance is in the outcome, not raised.
    """
    spec = entry_point.spec
    where = f"fixture {profile.label}"
    views = tensor_views(resident.verified.blob(profile.record.fixture).data, where)
    device = profile.device
    arrays = {name: array for name, (array, *_) in views.items()}
    _require_fit(spec, profile, arrays, where)
    inputs = [arrays[f"inputs/{s.path}"] for s in spec.inputs]
    others = [other_input(array, s) for array, s in zip(inputs, spec.inputs, strict=True)]
    try:
        # First, so that what a call leaves behind shows in the results of the fixture.
        execute(profile, others)
        del others
        started = time.perf_counter()
        results = execute(profile, inputs)
        is_quick = time.perf_counter() - started < WARM_SECONDS_MAX
        found = as_arrays(profile, results)
        again = execute(profile, inputs) if is_quick else None
    except device.error as error:
        from aotc_runtime.serving.serving_refusals import fixture_failed

        raise fixture_failed(where, error) from error
    rtol, atol = float(spec.tolerance.rtol), float(spec.tolerance.atol)
    differences = [
        (tensor.path, compare(array, arrays[f"outputs/{tensor.path}"], rtol, atol))
        for tensor, array in zip(spec.outputs, found, strict=True)
    ]
    changed = None
    if again is not None:
        changed = first_changed(spec, device, found, as_arrays(profile, again))
    return Ran(over_all(differences), inputs, is_quick, changed)


def other_input(array: Array, spec: TensorSpec) -> Array:
    """Return another input with the same dtype and shape.

    Numbers are reversed; booleans and random keys have every bit inverted.
    """
    if array.dtype == np.bool_ or spec.key_impl is not None:
        return np.asarray(~array)
    return np.ascontiguousarray(np.flip(array)).reshape(array.shape)


def first_changed(
    spec: EntryPoint, device: Device, found: Sequence[Array], again: Sequence[Array]
) -> str | None:
    """Return the path of an output that differs between two equal calls, or None.

    Bytes must be equal; on a device with an undefined order of sums, numbers must be within the
    tolerance.
    """
    rtol, atol = float(spec.tolerance.rtol), float(spec.tolerance.atol)
    for tensor, one, other in zip(spec.outputs, found, again, strict=True):
        is_same = not one.size or not _differ(one, other).any()
        if not (is_same or (not device.repeats_exactly and compare(other, one, rtol, atol).within)):
            return tensor.path or "result"
    return None


def as_arrays(profile: ResidentProfile, results: Sequence[Buffer]) -> list[Array]:
    """Return the results of an executable as numpy arrays."""
    to_numpy = profile.device.to_numpy
    return [to_numpy(result, aval) for result, aval in zip(results, profile.outputs, strict=True)]


def _require_fit(
    spec: EntryPoint, profile: ResidentProfile, arrays: Mapping[str, Array], where: str
) -> None:
    """Raises ReadinessError (AOTC-E702) if a fixture's tensors are not those of its executable."""
    wanted = [
        *((f"inputs/{s.path}", aval) for s, aval in zip(spec.inputs, profile.inputs, strict=True)),
        *((f"outputs/{s.path}", a) for s, a in zip(spec.outputs, profile.outputs, strict=True)),
    ]
    for name, aval in wanted:
        array = arrays.get(name)
        if array is None or array.shape != aval.shape or array.dtype != aval.dtype:
            from aotc_runtime.serving.serving_refusals import unfit_fixture

            raise unfit_fixture(where, name, aval, array)


def execute(profile: ResidentProfile, inputs: list[Array]) -> list[Buffer]:
    """Run on the path that calls take later, so that the first call has nothing left to prepare."""
    # Under jax's settings jaxlib's call path might take 64-bit arrays for 32-bit ones.
    if profile.direct is not None and not (profile.device.minds_jax and "jax" in sys.modules):
        return profile.direct(*inputs)
    put, avals = profile.device.put, profile.inputs
    leaves = [put(array, aval) for array, aval in zip(inputs, avals, strict=True)]
    arguments = [leaves[a] if isinstance(a, int) else a for a in profile.arguments]
    return profile.device.execute(profile.executable, arguments)
