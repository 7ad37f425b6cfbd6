"""Runs the trials of a target's executables as a server calls them.

Those of an executable run between two calls with its fixture, which have to give the same results.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from aotc.base.errors import finding
from aotc.check.parity_process import AT_A_CALL, Answer
from aotc.check.plain_structures import leaf_of
from aotc.check.trial_records import (
    Array,
    Call,
    CallArrays,
    EntryTrials,
    Outcome,
    PlainOutcome,
    Sizes,
    Trial,
    TriedEntry,
    call_arrays,
    call_file,
    found_file,
    read_call,
    tried_file,
)
from aotc.check.trial_run import Subject, difference, run
from aotc.check.trial_verdict import Repeat
from aotc_runtime.base import first_line
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import EntryPoint
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.serving.readiness import Difference, as_arrays, execute, first_changed
from aotc_runtime.serving.resident_bundle import ResidentBundle, ResidentProfile


def run_trials(
    resident: ResidentBundle, target: str, folder: Path, known: Mapping[ExecutableKey, Difference]
) -> Answer:
    """Run the planned trials of a target; `known` has what readiness found of fixtures.

    Other differences are calls that fail, and changed inputs, results and weights. Differing
    results are left in the folder, for the truth.
    """
    tried = {each.entry.entry_point: each for each in tried_file(folder).read({}).get(target, [])}
    runs = _Runs(resident, target, folder)
    for name, entry_point in resident.entry_points.items():
        planned = tried.get(name, TriedEntry(EntryTrials(name, 0.0, 0.0), ()))
        pairs = [(trial, plain) for trial, plain in planned.pairs() if not plain.skipped]
        for profile in entry_point.profiles:
            own = [(t, p) for t, p in pairs if t.call.key == profile.key and not t.dimensions]
            runs.between_fixtures(profile, own, planned.entry, known[profile.key])
        for trial, _ in pairs:
            if trial.dimensions:
                runs.run(trial, planned.entry, runs.read(trial.call))
    runs.answer.differing.extend(_overwritten(resident))
    return runs.answer


class _CallFailedError(Exception):
    """The engine raised an error, which is among the differences."""


class _Runs:
    """The trials of a target, which are added to `answer`."""

    def __init__(self, resident: ResidentBundle, target: str, folder: Path) -> None:
        self._resident, self._target, self._folder = resident, target, folder
        self.answer = Answer()

    def between_fixtures(
        self,
        profile: ResidentProfile,
        pairs: Sequence[tuple[Trial, PlainOutcome]],
        entry: EntryTrials,
        known: Difference,
    ) -> None:
        """Run the value trials of an executable.

        `known` is what readiness found of the fixture: after another call than here, which may
        leave something behind.
        """
        fixture, spec = Trial(Call(profile.key)), self._spec(profile.key)
        blob = self._resident.verified.blob(profile.record.fixture)
        arrays = call_arrays(blob.data, spec.inputs, spec.outputs)
        own = next((plain.allowance for trial, plain in pairs if trial == fixture), 0.0)
        given = self.run(fixture, entry, arrays, known=known)
        first = [array.copy() for array in given or ()]
        for trial, plain in pairs:
            if trial != fixture:
                self.run(trial, entry, self.read(trial.call), max(0.0, plain.allowance - own))
        again = None if given is None else self._results(fixture, entry, arrays.inputs)
        if again is None:
            return
        assert given is not None, "another call follows only then"
        if any(a.tobytes() != b.tobytes() for a, b in zip(given, first, strict=True)):
            expected = "results that later calls leave as they are"
            self._differs(fixture.call, expected, "changed ones")
        changed = first_changed(spec, profile.device, first, again[0])
        if changed is not None:
            self._leave(fixture.call, again[0])
        alike = all(a.tobytes() == b.tobytes() for a, b in zip(first, again[0], strict=True))
        self.answer.repeats.append(Repeat(profile.key, alike, changed))

    def run(
        self,
        trial: Trial,
        entry: EntryTrials,
        arrays: CallArrays,
        more: float = 0.0,
        known: Difference | None = None,
    ) -> Sequence[Array] | None:
        """Run and compare a trial; return the results of its first way, or None if a call fails.

        `more` is added to the absolute tolerance. `known` counts if this call is within it.
        """
        results = self._results(trial, entry, arrays.inputs)
        if results is None:
            return None
        spec = self._spec(trial.call.key)
        rtol, atol = float(spec.tolerance.rtol), float(spec.tolerance.atol) + more
        found = difference(trial, results, arrays.expected, spec.outputs, rtol, atol)
        if not found.within and not trial.dimensions:
            self._leave(trial.call, results[0])
        self.answer.outcomes.append(Outcome(trial, known if known and found.within else found))
        return results[0]

    def _results(
        self, trial: Trial, entry: EntryTrials, inputs: list[Array]
    ) -> list[list[Array]] | None:
        entry_point = self._resident.entry_points[trial.call.key.entry_point]
        spec, profiles = entry_point.spec, entry_point.profiles

        def called(sizes: Sizes, leaves: list[Array]) -> list[Array]:
            profile = next(each for each in profiles if each.record.sizes == sizes)
            copies = [array.copy() for array in leaves]
            try:
                results = as_arrays(profile, execute(profile, copies))
            except profile.device.error as error:
                failed = finding("AOTC-E953", str(trial.call), first_line(error), cause=AT_A_CALL)
                self.answer.differing.append(failed)
                raise _CallFailedError from error
            for tensor, before, after in zip(spec.inputs, leaves, copies, strict=True):
                if before.tobytes() != after.tobytes():
                    expected = "an input that stays as it is"
                    self._differs(trial.call, expected, "another one", f" {tensor.path}")
            return results

        try:
            return run(trial, Subject(entry, spec.inputs, spec.outputs, called), inputs)
        except _CallFailedError:
            return None

    def _differs(self, call: Call, expected: str, found: str, path: str = "") -> None:
        differing = finding("AOTC-E959", f"{call}{path}", found, expected=expected)
        self.answer.differing.append(differing)

    def _spec(self, key: ExecutableKey) -> EntryPoint:
        return self._resident.entry_points[key.entry_point].spec

    def read(self, call: Call) -> CallArrays:
        """Return a call of plain JAX."""
        spec = self._spec(call.key)
        return read_call(call_file(self._folder, call), spec.inputs, spec.outputs)

    def _leave(self, call: Call, results: Sequence[Array]) -> None:
        leaves = [leaf_of(np.asarray(array)) for array in results]
        found_file(self._folder, self._target, call).write(leaves)


def _overwritten(resident: ResidentBundle) -> Iterator[Finding]:
    """Yield weights and fixtures whose bytes are not what they were when they were verified."""
    manifest = resident.verified.manifest
    for name, weights in manifest.weights.items():
        for ref in weights.blobs:
            if sha256(resident.verified.blob(ref).data) != ref.digest:
                expected = "weights that stay as they are"
                yield finding("AOTC-E959", f"weights {name}", "other ones", expected=expected)
