"""Has calls judged whose results differ from those of plain JAX: by the same module in float64, and
by StableHLO's reference interpreter, each in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from aotc.base.child_processes import Processes
from aotc.base.workers import worker_environment, worker_parent
from aotc.check.parity_process import Call
from aotc.check.value_trials import found_file
from aotc.check.value_verdict import Judgement, Verdict
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.schema.bundle_manifest import BundleManifest

WORKER = "aotc.pipeline.children.truth_worker"

SECONDS_MAX, OPINION_SECONDS_MAX = 1800, 60

OPINIONS_MAX = 4
"""Calls that the interpreter is asked about."""

_LIBRARY = "LIBRARY_FUSION_TYPE_INDIVIDUAL_"
WITH_NAN = {
    "xla_cpu_experimental_ynn_fusion_type": f"{_LIBRARY}DOT,{_LIBRARY}CONVOLUTION",
}
"""Options for XLA to reduce in loops of its own: YNNPACK, which reduces by default together with
what comes before, loses NaN in maxima and minima, those of ReLU too."""

AS_WRITTEN = {**WITH_NAN, "xla_disable_hlo_passes": "algsimp"}
"""Options for XLA to compute what a module says: otherwise zero times NaN may be zero."""

type Opinion = Literal["engine", "plain JAX", "both", ""]


class Job(Struct, frozen=True):
    """folder: the scratch folder.  tolerances: rtol and atol, by entry point.  options: of XLA, for
    each way to compute the truth; none to ask the interpreter.
    """

    folder: str
    target: str
    calls: tuple[Call, ...]
    tolerances: dict[str, tuple[float, float]]
    options: tuple[dict[str, str], ...]


class Judge:
    """Judges calls of one target's executables."""

    def __init__(self, scratch: Scratch, processes: Processes, manifest: BundleManifest) -> None:
        self._scratch, self._processes, self._manifest = scratch, processes, manifest

    def __call__(self, calls: Sequence[Call]) -> list[Judgement]:
        """What came of each call, in their order."""
        folder, target = self._scratch.folder, self._manifest.target.name
        left = [c for c in calls if found_file(folder, target, c.key, c.kind).exists()]
        judged: dict[Call, Judgement] = {}
        every: tuple[tuple[dict[str, str], ...], ...] = ((WITH_NAN, AS_WRITTEN), (WITH_NAN,))
        for options in every:
            try:
                verdicts = self._ask(left, options, list[Verdict], SECONDS_MAX)
            except worker_parent.CrashedError:
                continue
            judged = {c: Judgement(v) for c, v in zip(left, verdicts, strict=True)}
            break
        for call in left[:OPINIONS_MAX]:
            if call in judged and not judged[call].verdict.is_settled:
                judged[call] = replace(judged[call], opinion=self._opinion(call))
        unjudged = Judgement(Verdict("", False, 0))
        return [judged.get(call, unjudged) for call in calls]

    def _opinion(self, call: Call) -> Opinion:
        try:
            return self._ask([call], (), list[Opinion], OPINION_SECONDS_MAX)[0]
        except worker_parent.CrashedError:
            return ""

    def _ask[A](
        self,
        calls: Sequence[Call],
        options: tuple[dict[str, str], ...],
        answer_type: type[A],
        seconds: float,
    ) -> A:
        entry_points = self._manifest.entry_points
        tolerances = {
            name: (float(each.tolerance.rtol), float(each.tolerance.atol))
            for name, each in entry_points.items()
        }
        folder: Path = self._scratch.folder
        return worker_parent.run(
            worker_parent.module(WORKER),
            Job(str(folder), self._manifest.target.name, tuple(calls), tolerances, options),
            answer_type,
            within=folder,
            environment=worker_environment.clean({"JAX_PLATFORMS": "cpu"}),
            processes=self._processes,
            seconds=seconds,
        )
