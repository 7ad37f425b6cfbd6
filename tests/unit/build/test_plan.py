"""Targets that a manifest or a command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.build.plan import resolve_targets
from aotc.config.build_manifest import read_build_manifest
from aotc.errors import BuildManifestError
from aotc_runtime.errors import Finding

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
