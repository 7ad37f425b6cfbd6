"""What a trial that differs is told with."""

from __future__ import annotations

import pytest

from aotc.check.padding.trial_records import EntryTrials, PlannedTrial
from aotc.check.padding.trial_verdict import refusals
from aotc_runtime.serving.readiness import Difference

ENTRY = EntryTrials("encode", 1e-5, 1e-6, {}, (), {}, {}, ())
PADDED = PlannedTrial(("seq",), {"seq": 3}, ({"seq": 8},), "declared")
PARTS = PlannedTrial(("seq",), {"seq": 16}, ({"seq": 8}, {"seq": 8}), "")


def hint(trial: PlannedTrial, max_rel: float) -> str:
    outcome = Difference(max_rel, max_rel, 9, 1, within=False, excess=2.0, worst="result")
    (finding,) = refusals(
        ENTRY, [(trial, outcome)], "plain JAX itself", lambda *keys: ".".join(keys)
    )
    return finding.hint


@pytest.mark.parametrize(
    ("trial", "advice"), [(PADDED, "keep the padding out of sums"), (PARTS, "depend on each other")]
)
def test_a_difference_the_size_of_rounding_is_told_with_the_tolerance(
    trial: PlannedTrial, advice: str
) -> None:
    small = hint(trial, 3e-5)
    assert "raise `tolerance` of encode, now rtol = 1e-05, atol = 1e-06" in small
    assert advice in small
    for large in (0.5, float("inf")):
        assert "tolerance" not in hint(trial, large)
        assert advice in hint(trial, large)
