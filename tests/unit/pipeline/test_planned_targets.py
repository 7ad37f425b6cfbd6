"""Targets that a manifest or a command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.base.errors import BuildManifestError
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc.pipeline.build_plan import resolve_targets
from aotc_runtime.base.errors import Finding

MANIFEST = """\
schema = 1
name = "program"
version = "1.0.0"
targets = [
    "cpu-x86-64-v3",
    {second},
]
[entry_points.f]
function = "program:f"
"""


def refused(folder: Path, second: str, *override: str) -> Finding:
    (folder / "m.toml").write_text(MANIFEST.format(second=second))
    with pytest.raises(BuildManifestError) as caught:
        resolve_targets(read_build_manifest(folder / "m.toml"), override)
    (finding,) = caught.value.findings
    return finding


def test_a_target_that_is_not_there_is_refused_with_the_line_that_names_it(tmp_path: Path) -> None:
    finding = refused(tmp_path, '"cpu-x86-64-v33"')
    assert finding.code == "AOTC-E811"
    assert finding.where == f"{tmp_path / 'm.toml'}:6 targets[1]"


def test_two_targets_of_one_name_are_refused_with_the_line_of_the_second(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "other.toml").write_text(
        'schema = 1\nname = "cpu-x86-64-v3"\nplatform = "cpu"\nthreads = 1\n'
        'triple = "x86_64-unknown-linux-gnu"\ncpu = "x86-64-v3"\nfeatures = ["avx2"]\n'
    )
    finding = refused(tmp_path, '"other"')
    assert (finding.code, finding.where) == ("AOTC-E813", f"{tmp_path / 'm.toml'}:6 targets[1]")


def test_a_target_of_the_command_line_is_refused_as_such(tmp_path: Path) -> None:
    finding = refused(tmp_path, '"cpu-x86-64-v4"', "nope")
    assert (finding.code, finding.where) == ("AOTC-E811", "--target")


MESHED = """\
schema = 1
name = "program"
version = "1.0.0"
targets = ["{target}"]
mesh = {{ data = 2, model = 2 }}
[target."{target}"]
devices = {devices}
[entry_points.f]
function = "program:f"
"""


CHIPS = """\
schema = 1
name = "chips"
platform = "tpu"
topology = "v5e:2x2"
kinds = ["TPU v5 lite"]
devices = 4
"""


def meshed(folder: Path, target: str, devices: int) -> BuildManifest:
    (folder / "targets").mkdir()
    (folder / "targets" / "chips.toml").write_text(CHIPS)
    (folder / "m.toml").write_text(MESHED.format(target=target, devices=devices))
    return read_build_manifest(folder / "m.toml")


def test_a_target_gets_the_devices_that_the_manifest_gives_it(tmp_path: Path) -> None:
    (target,) = resolve_targets(meshed(tmp_path, "cpu-x86-64-v3", 4))
    assert target.devices == 4


@pytest.mark.parametrize(
    ("target", "devices", "line", "expected", "found"),
    [
        ("cpu-x86-64-v3", 2, 7, "4 devices, for the mesh { data = 2, model = 2 }", "with 2"),
        ("chips", 8, 7, "4 devices, which v5e:2x2 has", "8"),
    ],
)
def test_another_number_of_devices_than_the_mesh_has_is_refused(
    tmp_path: Path, target: str, devices: int, line: int, expected: str, found: str
) -> None:
    with pytest.raises(BuildManifestError) as caught:
        resolve_targets(meshed(tmp_path, target, devices))
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E815"
    assert f"m.toml:{line} " in finding.where
    assert finding.expected == expected
    assert finding.found.endswith(found)


def test_a_target_of_the_command_line_needs_as_many_devices_as_the_mesh(tmp_path: Path) -> None:
    with pytest.raises(BuildManifestError) as caught:
        resolve_targets(meshed(tmp_path, "cpu-x86-64-v3", 4), ["cpu-x86-64-v4"])
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("AOTC-E815", "--target")
    assert "[target.cpu-x86-64-v4] devices = 4" in finding.hint
