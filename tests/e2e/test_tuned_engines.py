"""Engines in turns: a tuned build takes the one that is best for its objective, says why, and is
built again from its choice.

`slate` of the distribution in `tests/e2e/abacus` is an engine that is faster than XLA for one
program, and slow to start, large or wrong where the environment says so.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lines import Said, run_all

from aotc.compile.target_files import builtin_folder
from tests.running import printed

ABACUS = Path(__file__).parent / "abacus"

PROGRAM = """
import jax.numpy as jnp
from jax import lax

def init():
    return {"bias": jnp.arange(3.0), "kernel": jnp.arange(12.0).reshape(4, 3) / 7}

def predict(params, image):
    result = image @ params["kernel"] + params["bias"]
    return lax.fori_loop(0, 30_000, lambda step, sums: jnp.sin(sums) * 0 + sums, result)
"""

MANIFEST = """
schema = 1
name = "sums"
version = "1.0.0"
targets = ["few"]
engines = ENGINES

[weights.params]
init = "program:init"

[dimensions.batch]
range = [1, 8]
profiles = [4]

[entry_points.predict]
function = "program:predict"
bind = { params = "params" }
inputs.image = { shape = ["batch", 4], dtype = "float32" }

[entry_points.predict.fixtures]
ranges = { image = [-3.0, 3.0] }
"""

OPTIONS = """
[options]
xla_cpu_experimental_ynn_fusion_type = ""
xla_cpu_prefer_vector_width = "256"
xla_backend_optimization_level = "2"
"""
"""At the end of a target file: candidates do not vary what it says, and two are left to compile."""

SERVER = """
import json, sys
import numpy as np
import aotc_runtime

image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
with aotc_runtime.load("sums.aotb", trust="trust.toml") as loaded:
    result = loaded["predict"](image)
    print(json.dumps([result.tolist(), loaded.report(), sorted(sys.modules)]))
"""


INSPECT = ["inspect", "sums.aotb", "--json"]


class Place:
    """A folder with the program; what runs in it has the distribution on its path."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self._cache = folder, cache
        (folder / "program.py").write_text(PROGRAM)
        (folder / "targets").mkdir()
        target = (builtin_folder() / "cpu-x86-64-v3.toml").read_text()
        named = target.replace('name = "cpu-x86-64-v3"', 'name = "few"')
        (folder / "targets" / "few.toml").write_text(named + OPTIONS)

    def write(self, engines: str = '["xla", "slate"]', more: str = "") -> None:
        text = MANIFEST.replace("ENGINES", engines)
        (self.folder / "sums.toml").write_text(text + more)

    def run(self, *lines: Sequence[str], **variables: str) -> list[Said]:
        """Return what command lines say, one after another in a process with these variables."""
        every = [(self.folder, line) for line in lines]
        return run_all(every, {"PYTHONPATH": str(ABACUS), **variables})

    def build(self, *options: str, manifest: str = "sums.toml") -> list[str]:
        """The command line that builds sums.aotb with the cache and says JSON."""
        cache = ["--cache", str(self._cache)]
        return ["build", manifest, "-o", "sums.aotb", *cache, *options, "--json"]

    def tune(self, *options: str, **variables: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a tuned build and then `inspect` say."""
        built, inspected = self.run(self.build("--tune", *options), INSPECT, **variables)
        assert "root_digest" in built.document, built
        return built.document, inspected.document


@dataclass(frozen=True)
class Tuned:
    """A place with sums.aotb, sums.json and trust.toml; what commands said of the bundle."""

    place: Place
    document: dict[str, Any]
    told: str
    page: str

    @property
    def target(self) -> dict[str, Any]:
        return self.document["targets"]["few"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Tuned:
    """sums.aotb, which --tune chose slate for, signed."""
    place = Place(tmp_path_factory.mktemp("tuned"), cache)
    place.write()
    *_, built, inspected, told, reported = place.run(
        ["keygen", "release", "--plain"],
        ["trust", "init", "-o", "trust.toml", "--name", "sums", "--key", "release.pub"],
        place.build("--tune", "--save-tuning", "sums.json", "--key", "release.key"),
        INSPECT,
        ["inspect", "sums.aotb"],
        ["report", "sums.aotb", "-o", "sums.html"],
    )
    assert "root_digest" in built.document, built
    assert reported.exit_code == 0, reported
    return Tuned(place, inspected.document, told.out, (place.folder / "sums.html").read_text())


@pytest.fixture
def place(tmp_path: Path, cache: Path, tuned: Tuned) -> Place:
    """Another folder, with the same cache."""
    return Place(tmp_path, cache)


def test_the_fastest_engine_is_taken_with_the_figures_of_all(tuned: Tuned) -> None:
    choice = tuned.target["engine_choice"]
    assert (choice["engine"], choice["objective"]) == ("slate", "latency")
    xla, slate = choice["engines"]
    assert (xla["engine"], xla["relative"], slate["engine"]) == ("xla", "1.000", "slate")
    # It takes a twentieth of the time; a busy host may still spoil a round for it.
    assert float(slate["relative"]) < 0.9 and 2 * slate["wins"] > choice["rounds"] >= 3
    for each in (xla, slate):
        for name in ("latency_us", "start_ms", "memory_bytes"):
            least, median, most = (float(each[name][at]) for at in ("least", "median", "most"))
            assert 0 < least <= median <= most


def test_engines_are_compared_in_rounds_that_chose_none_of_their_candidates(tuned: Tuned) -> None:
    """Of the one executable, the figures of an engine are those of its best candidate, again."""
    (profile,) = tuned.target["entry_points"]["predict"]["profiles"]
    chose = {each["name"]: each for each in profile["tuned"]["candidates"] if "p50_us" in each}
    xla, slate = tuned.target["engine_choice"]["engines"]
    again = xla["latency_us"]["median"], slate["latency_us"]["median"], slate["relative"]
    best = chose["slate-default"]
    assert all(
        again != (each["p50_us"], best["p50_us"], best["relative"])
        for name, each in chose.items()
        if name.startswith("xla-")
    )


def test_each_executable_says_what_was_tried_with_every_engine(tuned: Tuned) -> None:
    assert tuned.target["engine"] == "slate"
    (profile,) = tuned.target["entry_points"]["predict"]["profiles"]
    names = [each["name"] for each in profile["tuned"]["candidates"]]
    assert names == ["xla-default", "xla-captured", "slate-default"]
    assert profile["tuned"]["choice"] == "slate-default"
    assert profile["parity"]["status"] == "ran"
    assert "engine slate, chosen for its latency" in tuned.told and "ms" in tuned.told
    assert "engine slate, chosen for its latency" in tuned.page and "slate-default" in tuned.page


def test_a_server_runs_the_chosen_engine_and_says_so(tuned: Tuned) -> None:
    paths = [str(ABACUS), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    served = printed(SERVER, folder=tuned.place.folder, PYTHONPATH=path)
    result, report, modules = json.loads(served)
    image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    kernel = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    np.testing.assert_allclose(result, image @ kernel + np.arange(3), atol=1e-5)
    assert report["engine"] == "slate" and "jaxlib.xla_client" not in modules


def test_the_same_bundle_is_built_from_the_choices(tuned: Tuned, place: Place) -> None:
    place.write()
    (place.folder / "alone.toml").write_text(MANIFEST.replace("ENGINES", '["xla"]'))
    saved = str(tuned.place.folder / "sums.json")
    key = tuned.place.folder / "release.key"
    (place.folder / "release.key").write_bytes(key.read_bytes())
    built, refused = place.run(
        place.build("--tuning", saved), place.build("--tuning", saved, manifest="alone.toml")
    )
    assert built.document["root_digest"] == tuned.document["root_digest"]
    (finding,) = refused.document["findings"]
    assert (finding["code"], finding["found"]) == ("AOTC-E031", "choices for slate")


def test_automatic_tuning_measures_once_and_repeats_its_choice(place: Place) -> None:
    place.write(more="[tune]\nauto = true\n")
    measured, first, repeated, refused = place.run(
        place.build(), INSPECT, place.build(), place.build("--check-reproducible")
    )
    assert first.document["targets"]["few"]["engine"] == "slate"
    assert "sums.tuning.json has the choices" in str(measured.document["notes"])
    assert repeated.document["root_digest"] == measured.document["root_digest"]
    assert "measured briefly" not in str(repeated.document["notes"]) and refused.exit_code == 2


def test_another_objective_takes_another_engine(place: Place) -> None:
    place.write('["slate", "xla"]', '\n[tune]\nobjective = "start"\n')
    worse = {"SLATE_START_SECONDS": "1", "SLATE_MEGABYTES": "300"}
    choice = place.tune(**worse)[1]["targets"]["few"]["engine_choice"]
    assert (choice["engine"], choice["objective"], choice["starts"]) == ("xla", "start", 5)
    slate, xla = choice["engines"]
    assert float(xla["relative"]) < 0.97
    assert slate["memory_bytes"]["least"] > 300e6


@pytest.mark.parametrize(
    ("variable", "options", "reason"),
    [
        # What was compiled before is not refused.
        ("SLATE_REFUSES", ["--cache", "off"], "predict[batch=4]: AOTC-E901: a long one"),
        ("SLATE_WRONG", [], "predict[batch=4]: its results differ from plain JAX by up to 1"),
    ],
)
def test_unfit_engine_noted(place: Place, variable: str, options: list[str], reason: str) -> None:
    place.write()
    built, inspected = place.tune(*options, **{variable: "1"})
    assert f"slate was left out for few: {reason}" in built["notes"]
    assert built["targets"]["few"]["engine"] == "xla"
    assert inspected["targets"]["few"]["engine_choice"]["engines"][1] == {
        "status": "left-out",
        "engine": "slate",
        "reason": reason,
    }
