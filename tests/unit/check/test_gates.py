"""Each gate is about one thing, names what goes beyond it and where, and lets the rest through."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from aotc.base.evidence import Coverage, Evidence
from aotc.base.source_locations import EntryPointLines, FunctionLines
from aotc.bundle.write.bundle_writer import Blob, TargetParts
from aotc.check import gates
from aotc.cli.command_group import cli
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.config.manifest_specs import Gates
from aotc.pipeline.build import build
from aotc.pipeline.target_assembly import AssembledTarget
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Once

PROGRAM = """
import jax
import jax.numpy as jnp

def helper(x, mode):
    if mode == "sum":
        return x.sum(axis=0)
    return x

def f(x):
    y = jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(4))
    z = jax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2 + 1, jnp.abs(y))
    return helper(jnp.tanh(z), "sum")
"""

MANIFEST = """
schema = 1
name = "gated"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "cpu-x86-64-v4"]
[entry_points.f]
function = "gated:f"
inputs.x = { shape = [4, 4], dtype = "float32" }
tolerance = { rtol = 1e-3, atol = 1e-3 }
"""

type Gated = tuple[BuildManifest, list[TargetParts]]

V3, V4 = "f for cpu-x86-64-v3", "f for cpu-x86-64-v4"


@pytest.fixture(scope="module")
def gated(once: Once) -> Gated:
    def fill(folder: Path) -> None:
        (folder / "gated.py").write_text(PROGRAM)
        (folder / "gated.toml").write_text(MANIFEST)
        build(folder / "gated.toml", output=folder / "gated.aotb")

    folder = once("gated", fill)
    contents, _ = read_unverified(open_bundle(folder / "gated.aotb"))
    parts = [
        TargetParts(
            manifest,
            [Blob(contents.blobs[d.digest], d.mediaType) for d in contents.targets[name].layers],
        )
        for name, manifest in contents.manifests.items()
    ]
    return read_build_manifest(folder / "gated.toml"), parts


def findings(
    gated: Gated, located: Mapping[str, EntryPointLines] = MappingProxyType({}), **stated: Any
) -> list[Finding]:
    manifest, parts = gated
    limited = replace(manifest, gates=Gates(**stated))
    found = list(gates.check(limited, assembled(parts), located))
    assert {finding.code for finding in found} <= {"AOTC-E975"}
    for finding in found:
        assert finding.where.endswith(f"gates.{next(iter(stated))}"), finding
    return found


def test_nothing_is_found_without_gates(gated: Gated) -> None:
    manifest, parts = gated
    assert list(manifest.gates.in_use()) == []
    assert list(gates.check(manifest, assembled(parts))) == []


@pytest.mark.parametrize(
    ("gate", "tight", "loose", "places"),
    [
        ("max_artifact_size", 1000, 10**6, ["cpu-x86-64-v3", "cpu-x86-64-v4"]),
        ("max_executable_size", 1000, 10**6, [V3, V4]),
        ("max_temp_memory", 16, 10**6, [V3, V4]),
        ("max_custom_calls", 0, 1, [V3, V4]),
        ("max_generated_kernels", 1, 100, [V3, V4]),
        ("forbid_libraries", ("LAPACK",), ("cuBLAS",), [V3, V4]),
        ("forbid_operations", ("stablehlo.while",), ("stablehlo.sort",), [V3, V4]),
        ("min_coverage", 0.9, 0.8, ["f"]),
    ],
)
def test_gate_refuses(gated: Gated, gate: str, tight: Any, loose: Any, places: list[str]) -> None:
    assert [f.found.partition(": ")[0] for f in findings(gated, **{gate: tight})] == places
    assert findings(gated, **{gate: loose}) == []


def test_lines_that_were_not_traced_are_named(gated: Gated) -> None:
    (bare,) = findings(gated, min_coverage=1.0)
    assert bare.found.endswith("; not gated.py in helper")
    covered = evidence_of(gated[1][0]).entry_points["f"].coverage.files["gated.py"]
    missed = {"helper": ("8",)}
    functions = (FunctionLines(name=f.name, line=1, missed=missed.get(f.name, ())) for f in covered)
    lines = {"f": EntryPointLines({"gated.py": tuple(functions)})}
    (found,) = findings(gated, lines, min_coverage=1.0)
    assert found.found.endswith("; not gated.py:8 in helper")


def assembled(parts: Sequence[TargetParts]) -> list[gates.GatedTarget]:
    return [AssembledTarget(part, evidence_of(part)).gated() for part in parts]


def evidence_of(part: TargetParts) -> Evidence:
    (data,) = [blob.data for blob in part.blobs if blob.media_type == oci_layout.EVIDENCE_TYPE]
    return canonical_json.decode(data, Evidence, where="evidence")


@pytest.mark.parametrize(
    ("traced", "lines", "limit", "refused"),
    [(7, 100, 0.07, False), (57, 100, 0.57, False), (6, 100, 0.07, True), (3, 3, 1.0, False)],
)
def test_exact_share(traced: int, lines: int, limit: float, refused: bool, gated: Gated) -> None:
    manifest, parts = gated
    files = {"gated.py": [{"name": "f", "lines": lines, "traced": traced}]}
    blobs = [_changed(blob, files=files) for blob in parts[0].blobs]
    part = TargetParts(parts[0].manifest, blobs)
    assert len(findings((manifest, [part]), min_coverage=limit)) == refused


def test_what_a_gate_allows_at_most_is_allowed(gated: Gated) -> None:
    manifest, parts = gated
    (record,) = parts[0].manifest.entry_points["f"].profiles
    (told,) = evidence_of(parts[0]).entry_points["f"].profiles
    assert told.compiled is not msgspec.UNSET
    steps = {place.name: place.steps for place in told.compiled.placement}
    found = {
        "max_artifact_size": sum({b.digest: len(b.data) for b in parts[0].blobs}.values()),
        "max_executable_size": record.executable.size,
        "max_temp_memory": record.memory.temp_bytes,
        "max_custom_calls": sum(told.compiled.optimized.custom_calls.values()),
        "max_generated_kernels": sum(steps["XLA"].values()),
    }
    for gate, size in found.items():
        assert findings((manifest, parts[:1]), **{gate: size}) == []
        assert len(findings((manifest, parts[:1]), **{gate: size - 1})) == 1, gate


def profiles_of(parts: TargetParts, sizes: Sequence[int], temp_bytes: Sequence[int]) -> TargetParts:
    """The same with that many profiles of the one executable, of these temporaries."""
    entry = parts.manifest.entry_points["f"]
    records = tuple(
        msgspec.structs.replace(
            entry.profiles[0],
            sizes={"n": size},
            memory=msgspec.structs.replace(entry.profiles[0].memory, temp_bytes=found),
        )
        for size, found in zip(sizes, temp_bytes, strict=True)
    )
    entry = msgspec.structs.replace(entry, profiles=records)

    def with_profiles(blob: Blob) -> Blob:
        if blob.media_type != oci_layout.EVIDENCE_TYPE:
            return blob
        evidence = canonical_json.decode(blob.data, Evidence, where="evidence")
        told = evidence.entry_points["f"]
        told = msgspec.structs.replace(told, profiles=told.profiles * len(records))
        return Blob(
            canonical_json.encode(msgspec.structs.replace(evidence, entry_points={"f": told})),
            blob.media_type,
        )

    manifest = msgspec.structs.replace(parts.manifest, entry_points={"f": entry})
    return TargetParts(manifest, [with_profiles(blob) for blob in parts.blobs])


def test_one_cause_in_several_profiles_is_one_finding(gated: Gated) -> None:
    manifest, parts = gated
    many = (manifest, [profiles_of(part, [1, 8, 64], [9, 9, 9]) for part in parts])
    same = "1 lapack_spotrf_ffi (n=1, n=8, n=64)"
    found = findings(many, forbid_libraries=("LAPACK", "XLA"))
    assert [f.found for f in found if f.expected == "no work done by LAPACK"] == [
        f"{V3}: {same}",
        f"{V4}: {same}",
    ]
    assert len(found) == 4


def test_what_differs_between_profiles_is_told_for_each(gated: Gated) -> None:
    manifest, parts = gated
    many = (manifest, [profiles_of(parts[0], [1, 2, 4, 8], [9, 100, 100, 200])])
    (found,) = findings(many, max_temp_memory=16)
    assert found.found == f"{V3}: 100 (n=2, n=4); 200 (n=8)"
    (found,) = findings(many, max_temp_memory=150)
    assert found.found == "f[n=8] for cpu-x86-64-v3: 200"


def test_a_gate_that_cannot_be_judged_refuses(gated: Gated) -> None:
    manifest, parts = gated
    blind = [
        TargetParts(
            parts[0].manifest, [_changed(b, compiled=msgspec.UNSET) for b in parts[0].blobs]
        )
    ]
    assert len(findings((manifest, blind), max_custom_calls=9)) == 1
    assert len(findings((manifest, blind), max_temp_memory=10**6)) == 0
    uncovered = [TargetParts(parts[0].manifest, [_changed(b, files={}) for b in parts[0].blobs])]
    assert len(findings((manifest, uncovered), min_coverage=0.0)) == 1


def _changed(blob: Blob, **what: Any) -> Blob:
    if blob.media_type != oci_layout.EVIDENCE_TYPE:
        return blob
    evidence = canonical_json.decode(blob.data, Evidence, where="evidence")
    (name, entry), *_ = evidence.entry_points.items()
    if "files" in what:
        entry = msgspec.structs.replace(entry, coverage=msgspec.convert(what, Coverage))
    else:
        profiles = tuple(msgspec.structs.replace(p, **what) for p in entry.profiles)
        entry = msgspec.structs.replace(entry, profiles=profiles)
    changed = msgspec.structs.replace(evidence, entry_points={name: entry})
    return Blob(canonical_json.encode(changed), blob.media_type)


def test_a_build_beyond_its_gates_writes_nothing_and_tells_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "gated.py").write_text(PROGRAM)
    stated = "[gates]\nmax_executable_size = 1\nmax_artifact_size = 2\nmin_coverage = 1.0\n"
    (tmp_path / "gated.toml").write_text(MANIFEST.replace(', "cpu-x86-64-v4"', "") + stated)
    output = tmp_path / "gated.aotb"
    arguments = ["build", str(tmp_path / "gated.toml"), "-o", str(output), "--json"]
    done = CliRunner().invoke(cli, arguments)
    document = json.loads(done.stdout)
    assert (done.exit_code, document["exit_code"]) == (9, 9)
    assert {finding["code"] for finding in document["findings"]} == {"AOTC-E975"}
    found = {f["where"].rpartition(".")[2]: f["found"] for f in document["findings"]}
    assert found.keys() == {"max_executable_size", "max_artifact_size", "min_coverage"}
    assert "gated.py:8 in helper" in found["min_coverage"]
    assert not output.exists()
