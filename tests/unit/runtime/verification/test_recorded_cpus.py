"""Targets that run on recorded processors, whatever the host of the tests is.

A processor's name says nothing: hypervisors mask AVX-512, kernels leave AMX off, emulators make up
a name. Only features count, and only those that a target requires.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.base.errors import Finding
from aotc_runtime.verification.host_compatibility import check_host, choose_target

from ..samples import host, manifest

TARGETS = Path(__file__).parents[4] / "targets"
RECORDED: dict[str, dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "recorded_cpus.toml").read_text()
)

AMX = ["amx-bf16", "amx-int8", "amx-tile"]

COLUMNS = "v2 v3 v4 haswell skylake-avx512 icelake-server sapphirerapids with-amx znver4 znver5"

LEVEL_3 = "v2 v3 haswell"
LEVEL_4 = "v2 v3 v4 haswell skylake-avx512"
# fmt: off
RUNS = {
    "nehalem":                    "v2",
    "sandybridge":                "v2",
    "haswell":                    LEVEL_3,
    "haswell-emulated":           LEVEL_3,
    "alderlake":                  LEVEL_3,
    "skylake-client":             LEVEL_3,
    "skylake-avx512":             LEVEL_4,
    "skylake-avx512-masked":      LEVEL_3,
    "cascadelake":                LEVEL_4,
    "icelake-server":             f"{LEVEL_4} icelake-server",
    "sapphirerapids":             f"{LEVEL_4} icelake-server sapphirerapids with-amx",
    "sapphirerapids-without-amx": f"{LEVEL_4} icelake-server sapphirerapids",
    "graniterapids":              f"{LEVEL_4} icelake-server sapphirerapids with-amx",
    "epyc-naples":                LEVEL_3,
    "epyc-milan":                 LEVEL_3,
    "epyc-genoa":                 f"{LEVEL_4} icelake-server znver4",
    "epyc-turin":                 f"{LEVEL_4} icelake-server znver4 znver5",
    "epyc-turin-vm":              f"{LEVEL_4} icelake-server znver4 znver5",
    "emulated-max":               LEVEL_3,
}
# fmt: on
"""By processor, the targets that run on it; every other one of COLUMNS is refused."""


def target_features(column: str) -> list[str]:
    """The features of a target that aotc comes with; with-amx is what a user may write."""
    if column == "with-amx":
        return [*target_features("sapphirerapids"), *AMX]
    name = f"x86-64-{column}" if column in ("v2", "v3", "v4") else column
    return tomllib.loads((TARGETS / f"cpu-{name}.toml").read_text())["features"]


def bundle_for(column: str) -> Any:
    return manifest(requires={"isa": target_features(column)}, target={"name": column})


def findings(processor: str, column: str) -> list[Finding]:
    recorded = RECORDED[processor]
    facts = host(cpu=recorded["cpu"], isa=frozenset(recorded["features"].split()))
    return check_host(bundle_for(column), facts)


def test_the_table_has_every_recorded_processor_and_every_target() -> None:
    assert RUNS.keys() == RECORDED.keys() and len(RUNS) >= 12
    files = {
        path.stem
        for path in TARGETS.glob("cpu-*.toml")
        if tomllib.loads(path.read_text())["triple"].startswith("x86_64")
    }
    names = {f"cpu-x86-64-{c}" if c[0] == "v" else f"cpu-{c}" for c in COLUMNS.split()}
    assert files == names - {"cpu-with-amx"}


@pytest.mark.parametrize("processor", RUNS)
def test_a_target_runs_exactly_where_the_table_says(processor: str) -> None:
    accepted = [column for column in COLUMNS.split() if not findings(processor, column)]
    assert accepted == RUNS[processor].split()


@pytest.mark.parametrize("processor", RUNS)
def test_a_refusal_names_every_missing_feature_and_no_other(processor: str) -> None:
    has = set(RECORDED[processor]["features"].split())
    for column in set(COLUMNS.split()) - set(RUNS[processor].split()):
        (finding,) = findings(processor, column)
        assert finding.code == "AOTC-E502"
        missing = sorted(set(target_features(column)) - has)
        assert finding.expected.split(", ") == missing, column


@pytest.mark.parametrize(
    ("processor", "best"),
    [
        ("haswell", "v3"),
        ("skylake-avx512-masked", "v3"),
        ("skylake-avx512", "v4"),
        ("epyc-milan", "v3"),
        ("epyc-turin-vm", "znver5"),
        ("sapphirerapids-without-amx", "sapphirerapids"),
    ],
)
def test_best_target_of_the_processor_is_taken(processor: str, best: str) -> None:
    recorded = RECORDED[processor]
    facts = host(cpu=recorded["cpu"], isa=frozenset(recorded["features"].split()))
    bundle = {c: bundle_for(c) for c in ("v2", "v3", "v4", "sapphirerapids", "znver5")}
    choice = choose_target(bundle, facts, None)
    assert (choice.target, choice.findings) == (best, ())
