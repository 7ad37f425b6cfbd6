"""Progress of a build, and how long its tasks ran."""

import pytest

from aotc.pipeline import task_progress
from aotc.pipeline.cached_tasks import Done, Kind, Task
from aotc.pipeline.task_progress import Meter


def test_overlapping_tasks_of_a_kind_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []
    counted = Meter(lambda *stage: seen.append(stage), lambda done: None)
    counted.expect(Kind.PARITY, 0)  # is not shown
    counted.expect(Kind.EXECUTABLE, 3)
    ends_and_seconds = [
        (Kind.EXECUTABLE, 3.0, 2.0),
        (Kind.REFERENCE, 50.0, 45.0),
        (Kind.EXECUTABLE, 4.0, 2.0),
        (Kind.EXECUTABLE, 12.0, 1.0),
        (Kind.EXECUTABLE, 12.0, 0.0),
    ]
    for kind, end, seconds in ends_and_seconds:
        monkeypatch.setattr(task_progress.time, "perf_counter", lambda end=end: end)
        counted.done(Done(Task(kind, "x", {}), False, (), seconds))
    assert counted.seconds(Kind.EXECUTABLE) == 3.0 + 1.0
    assert counted.seconds(Kind.REFERENCE) == 45.0
    assert counted.seconds(Kind.PARITY) == 0.0
    assert seen[0] == ("compile", 0, 3)


@pytest.mark.parametrize("steps", [0, 2, 9])
def test_plain_jax_counts_its_trials_and_has_ended_with_its_task(steps: int) -> None:
    seen: list[tuple[str, int, int]] = []
    counted = Meter(lambda *stage: seen.append(stage), lambda done: None)
    counted.expect(Kind.REFERENCE, 5)
    for _ in range(steps):
        counted.step(Kind.REFERENCE)
    assert seen[-1] == ("reference", min(steps, 4), 5)
    counted.done(Done(Task(Kind.REFERENCE, "", {}), False, (), 1.0))
    assert seen[-1] == ("reference", 5, 5)
