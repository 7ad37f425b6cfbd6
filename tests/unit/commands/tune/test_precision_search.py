"""The search for precisions: what is built, left out and chosen, with outcomes made up here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aotc.base.errors import BudgetExceededError, refusal
from aotc.commands.tune import precision_search, precision_worker
from aotc.commands.tune.precision_search import choose_precisions
from aotc.commands.tune.tuning_messages import Controlled
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.config.precision_specs import ChosenPrecision
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.schema.bundle_manifest import LeftOutCandidate, MeasuredCandidate
from tests.conftest import manifest_of
from tests.refusals import error_of

MANIFEST = manifest_of("""
name = "small"
weights.params.source = "params.safetensors"
precision.small.weights = "int8"
precision.tiny.weights = "int4"
[entry_points.f]
function = "program:f"
bind = { params = "params" }
inputs.x = { shape = [2], dtype = "float32" }
precision = LIST
[entry_points.f.evaluation]
data = "data.npz"
metric = "rmse"
LIMIT
""")


@dataclass
class Attempts:
    """Attempts with known outcomes by precision: weights to keep, or None."""

    keep: Mapping[str, tuple[str, ...] | None]
    failing: str = ""
    built: list[ChosenPrecision] = field(default_factory=list)

    def control(self, manifest: BuildManifest, options: BuildOptions) -> dict[str, Controlled]:
        name = manifest.chosen["f"].precision
        return {"f": Controlled("rmse", self.keep[name], 0.1, 0.5)} if name in self.keep else {}

    def build(self, path: Path, output: Path, options: BuildOptions) -> None:
        chosen = (options.precisions or {})["f"]
        self.built.append(chosen)
        if chosen.precision == self.failing:
            raise refusal("AOTC-E975", "m.toml", "too much")


def manifest(folder: Path, names: str, limit: str = "max_drop = 0.1") -> BuildManifest:
    for name in ("params.safetensors", "data.npz"):
        (folder / name).touch()
    text = MANIFEST.replace("LIST", names).replace("LIMIT", limit)
    for name in ("small", "tiny"):
        text = text if name in names else text.replace(f"precision.{name}", "#")
    (folder / "m.toml").write_text(text)
    return read_build_manifest(folder / "m.toml")


type Search = Callable[[BuildManifest, Attempts], Mapping[str, ChosenPrecision]]


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    """Return the search with attempts and times in place of processes."""
    times = {"float32": 2.0, "small": 1.0, "tiny": 3.0}

    def run(worker: Any, job: precision_worker.Job, answer: Any, **_: Any) -> Any:
        return {name: [times[name]] * 9 for name in job.bundles}

    def searched(manifest: BuildManifest, attempts: Attempts) -> Mapping[str, ChosenPrecision]:
        monkeypatch.setattr(precision_search, "_control", attempts.control)
        monkeypatch.setattr(precision_search, "build", attempts.build)
        monkeypatch.setattr(precision_search.worker_parent, "run", run)
        return choose_precisions(manifest, BuildOptions())

    return searched


LIST = '["float32", "small", "tiny"]'


def test_the_fastest_precision_within_the_limits_is_chosen(search: Search, tmp_path: Path) -> None:
    attempts = Attempts({"small": ("a",), "tiny": None})
    found = search(manifest(tmp_path, LIST), attempts)["f"]
    assert (found.precision, found.keep) == ("small", ("a",))
    assert [each.precision for each in attempts.built] == ["float32", "small"]
    first, second, third = found.candidates
    assert isinstance(first, MeasuredCandidate) and isinstance(second, MeasuredCandidate)
    assert (first.relative, second.relative) == ("1.000", "0.500")
    assert isinstance(third, LeftOutCandidate)
    assert third.reason == "rmse 0.5 with one weight quantized, 0.1 with none"


def test_a_precision_whose_bundle_misses_limits_is_left_out(search: Search, tmp_path: Path) -> None:
    attempts = Attempts({"small": (), "tiny": ()}, failing="small")
    found = search(manifest(tmp_path, LIST), attempts)["f"]
    assert found.precision == "float32"
    assert found.candidates[1] == LeftOutCandidate(name="small", reason="AOTC-E975: too much")


@pytest.mark.parametrize("limit", ["max_drop = 0.1", "", 'target = "label"'])
def test_one_precision_is_controlled_within_limits_and_not_measured(
    limit: str, search: Search, tmp_path: Path
) -> None:
    attempts = Attempts({"small": ("a", "b")})
    found = search(manifest(tmp_path, '"small"', limit), attempts)
    assert found == ({"f": ChosenPrecision("small", ("a", "b"))} if "max" in limit else {})
    assert not attempts.built


def test_limits_that_nothing_keeps_to_are_an_error(search: Search, tmp_path: Path) -> None:
    given = manifest(tmp_path, '"tiny"'), Attempts({"tiny": None})
    finding = error_of(BudgetExceededError, search, *given).findings[0]
    assert (finding.code, finding.title) == ("AOTC-E975", "no precision keeps to the limits")
    assert finding.found.startswith("tiny: rmse 0.5")
