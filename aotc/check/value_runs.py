"""Runs the value trials of a target's executables as a server calls them.

They run between two calls with the fixture, which have to give the same results.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from aotc.check.padding.trial_files import read_fixture
from aotc.check.parity_process import Differing
from aotc.check.plain_structures import Array
from aotc.check.value_trials import (
    FIXTURE,
    IDENTICAL,
    WITHIN,
    PlannedValues,
    ValueRan,
    ValuesRan,
    found_file,
    plan_file,
    value_file,
    write_found,
)
from aotc_runtime.base import first_line
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.serving.readiness import (
    Difference,
    as_arrays,
    compare,
    execute,
    first_changed,
    over_all,
)
from aotc_runtime.serving.resident_bundle import ResidentBundle, ResidentProfile


def run_values(
    resident: ResidentBundle, target: str, folder: Path
) -> tuple[list[ValuesRan], list[Differing]]:
    """Run the planned trials; return their results and other differences.

    These are calls that fail, and changed inputs and weights. Differing results are stored in the
    folder, to be evaluated later.
    """
    plans = plan_file(folder).read({})
    found: list[ValuesRan] = []
    differing: list[Differing] = []
    for entry_point in resident.entry_points.values():
        for profile in entry_point.profiles:
            plan = plans.get(profile.key.label)
            runs = _Runs(resident, profile, target, folder)
            found.append(runs.all_of(PlannedValues() if plan is None else plan))
            differing += runs.differing
    differing += _overwritten(resident)
    return found, differing


class _Runs:
    """The trials of one executable, and the differences that they show beside results."""

    def __init__(
        self, resident: ResidentBundle, profile: ResidentProfile, target: str, folder: Path
    ) -> None:
        self._verified, self._profile = resident.verified, profile
        self._spec = resident.entry_points[profile.key.entry_point].spec
        self._target, self._folder = target, folder
        self.differing: list[Differing] = []

    def all_of(self, plan: PlannedValues) -> ValuesRan:
        profile, spec, key = self._profile, self._spec, self._profile.key
        views = tensor_views(self._verified.blob(profile.record.fixture).data, profile.label)
        inputs = [views[f"inputs/{tensor.path}"][0] for tensor in spec.inputs]
        expected = [views[f"outputs/{tensor.path}"][0] for tensor in spec.outputs]
        given = self._called(inputs, FIXTURE)
        first = None if given is None else [array.copy() for array in given]
        trials = [ran for kind in plan.kinds if (ran := self._trial(kind, plan)) is not None]
        again = self._called(inputs, FIXTURE)
        if given is None or first is None or again is None:
            return ValuesRan(key, tuple(trials), IDENTICAL)
        if any(a.tobytes() != b.tobytes() for a, b in zip(given, first, strict=True)):
            where = f"{profile.label} with the inputs {FIXTURE}"
            self.differing.append(
                Differing(where, "results that later calls leave as they are", "changed ones")
            )
        self._compared(FIXTURE, expected, first, 0.0)
        changed = first_changed(spec, profile.device, first, again)
        if changed is not None:
            write_found(found_file(self._folder, self._target, key, FIXTURE), again)
        alike = all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))
        return ValuesRan(key, tuple(trials), IDENTICAL if alike else WITHIN, changed)

    def _trial(self, kind: str, plan: PlannedValues) -> ValueRan | None:
        spec = self._spec
        path = value_file(self._folder, self._profile.key, kind)
        call = read_fixture(path, spec.inputs, spec.outputs)
        results = self._called(call.inputs, kind)
        if results is None:
            return None
        allowed = plan.allowances
        more = allowed.get(kind, 0.0) - allowed.get(FIXTURE, 0.0)
        return ValueRan(kind, self._compared(kind, call.expected, results, max(0.0, more)))

    def _compared(
        self, kind: str, expected: Sequence[Array], results: Sequence[Array], more: float
    ) -> Difference:
        rtol, atol = float(self._spec.tolerance.rtol), float(self._spec.tolerance.atol) + more
        differences = [
            (tensor.path, compare(result, wanted, rtol, atol))
            for tensor, wanted, result in zip(self._spec.outputs, expected, results, strict=True)
        ]
        difference = over_all(differences)
        if not difference.within:
            path = found_file(self._folder, self._target, self._profile.key, kind)
            write_found(path, results)
        return difference

    def _called(self, inputs: Sequence[Array], kind: str) -> list[Array] | None:
        """Return the results; None if the call failed."""
        profile, where = self._profile, f"{self._profile.label} with the inputs {kind}"
        copies = [array.copy() for array in inputs]
        try:
            results = as_arrays(profile, execute(profile, copies))
        except profile.device.error as error:
            failure = Differing(where, "", first_line(error), is_failure=True)
            self.differing.append(failure)
            return None
        for tensor, before, after in zip(self._spec.inputs, inputs, copies, strict=True):
            if before.tobytes() != after.tobytes():
                self.differing.append(
                    Differing(
                        f"{where} {tensor.path}", "an input that stays as it is", "another one"
                    )
                )
        return results


def _overwritten(resident: ResidentBundle) -> Iterator[Differing]:
    """Yield weights and fixtures whose bytes are not what they were when they were verified."""
    manifest = resident.verified.manifest
    for name, weights in manifest.weights.items():
        for ref in weights.blobs:
            if sha256(resident.verified.blob(ref).data) != ref.digest:
                yield Differing(f"weights {name}", "weights that stay as they are", "other ones")
