"""`tune = "auto"`, and how the field of variants is halved."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aotc.base.errors import UsageError, refusal
from aotc.commands.tune import tuning_service, tuning_worker
from aotc.commands.tune.tuning_messages import FULL, Effort, Job, Unfit
from aotc.commands.tune.tuning_service import Brief, Measure
from aotc.config import tuning_file
from aotc.config.tuning_file import Recorded, TuningFile
from aotc.pipeline.build import Built
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.schema.bundle_manifest import Tuned
from aotc_runtime.schema.manifest_labels import ExecutableKey

ONE, TWO = ExecutableKey("f", (("batch", 1),)), ExecutableKey("f", (("batch", 2),))
PROGRESS: Any = SimpleNamespace(started=lambda name: None, finished=lambda name: None)


@pytest.fixture(autouse=True)
def _microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call returns the time that it is said to take."""
    monkeypatch.setattr(tuning_worker, "_median", lambda call: call())


def takes(**microseconds: float) -> dict[str, Callable[[], float]]:
    return {name: lambda taken=taken: taken for name, taken in microseconds.items()}


def test_halved_drops_the_slower_half_after_each_round_but_for_those_that_stay() -> None:
    unfit: list[Unfit] = []
    calls = {ONE: takes(default=9.0, a=1.0, b=4.0, c=2.0, d=3.0)}
    rounds = tuning_worker.halve(calls, {"default"}, FULL, PROGRESS, unfit)[ONE]
    assert {name: len(times) for name, times in rounds.items()} == {"default": 9, "a": 9}
    assert [each.target for each in unfit] == ["d", "b", "c"]
    assert unfit[-1].reason == "2.00 times as long as the fastest in round 2"


def test_engines_are_halved_by_all_executables_together() -> None:
    """The second is the slowest of all in one executable, and the fastest over both."""
    job = Job("b", "p", ("x", "y", "z"), (), effort=Effort(False, 5, 60.0, 1))
    unfit: list[Unfit] = []
    calls = {ONE: takes(x=5.0, y=6.0, z=5.5), TWO: takes(x=5.0, y=1.0, z=5.5)}
    found = {each.executable: each.rounds for each in measure(job, calls, unfit)}
    assert {key: sorted(each) for key, each in found.items()} == {ONE: ["x", "y"], TWO: ["x", "y"]}
    assert {(each.target, each.executable) for each in unfit} == {("z", ONE), ("z", TWO)}


def test_engine_that_lacks_an_executable_is_left_out_of_all() -> None:
    job = Job("b", "p", ("x", "y"), (), effort=Effort(False, 5, 60.0, 1))
    unfit: list[Unfit] = []
    found = measure(job, {ONE: takes(x=5.0, y=1.0), TWO: takes(x=5.0)}, unfit)
    assert [sorted(each.rounds) for each in found] == [["x"], ["x"]]
    assert unfit == [Unfit("y", ONE, "lacks another executable")]


def measure(job: Job, calls: Any, unfit: list[Unfit]) -> list[Any]:
    return [*tuning_worker._engines(job, calls, unfit, PROGRESS)]


class Building:
    """Stands for a build: what it was called with, and the errors of a recorded choice."""

    def __init__(self, error: UsageError | None = None) -> None:
        self.calls: list[BuildOptions] = []
        self._error = error

    def __call__(self, manifest: Path, output: Path | None, options: BuildOptions) -> Built:
        self.calls.append(options)
        if self._error is not None and isinstance(options.tuning, Recorded):
            raise self._error
        empty: Any = None
        return Built(*[empty] * 6, (), *[empty] * 3, (), "")  # type: ignore[arg-type]


type Automatic = Callable[[Building], Built]


@pytest.fixture
def automatic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Automatic:
    def run(build: Building) -> Built:
        monkeypatch.setattr(tuning_service, "build", build)
        return Measure.automatic(tmp_path / "m.toml", None, BuildOptions())

    return run


def saved(path: Path, *, empty: bool = False) -> None:
    tuned = Tuned("default", {}, (), (), 3, "0.03", "cpu", 2, "1")
    one = tuning_file.TunedExecutable("few", "f", 0, "f", "sha256:0", tuned)
    file = TuningFile(1, "1", () if empty else (one,), {})
    path.write_bytes(tuning_file.encode(file))


def test_a_first_build_measures_briefly_and_writes_its_choices(
    automatic: Automatic, tmp_path: Path
) -> None:
    build = Building()
    built = automatic(build)
    (call,) = build.calls
    assert isinstance(call.tuning, Brief) and call.save_tuning == tmp_path / "m.tuning.json"
    assert built.notes[-1].startswith("measured briefly; ")


def test_a_later_build_repeats_the_choices(automatic: Automatic, tmp_path: Path) -> None:
    saved(tmp_path / "m.tuning.json")
    build = Building()
    assert automatic(build).notes == ()
    (call,) = build.calls
    assert isinstance(call.tuning, Recorded) and call.save_tuning is None


def test_choices_that_do_not_fit_are_measured_again_with_a_note(
    automatic: Automatic, tmp_path: Path
) -> None:
    saved(tmp_path / "m.tuning.json")
    build = Building(UsageError(*refusal("AOTC-E031", "m", "another program").findings))
    built = automatic(build)
    assert [type(call.tuning) for call in build.calls] == [Recorded, Brief]
    assert built.notes[-1].endswith("in place of those for another program")
    with pytest.raises(UsageError, match="AOTC-E003"):
        other = UsageError(*refusal("AOTC-E003", "m", "").findings)
        automatic(Building(other))


def test_a_file_without_choices_is_no_choice(automatic: Automatic, tmp_path: Path) -> None:
    """A host that can run none of the targets writes such a file."""
    saved(tmp_path / "m.tuning.json", empty=True)
    build = Building()
    automatic(build)
    assert isinstance(build.calls[0].tuning, Brief)
