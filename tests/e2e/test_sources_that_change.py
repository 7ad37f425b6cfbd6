"""Files that somebody writes while they are being built from: the bundle, its provenance and its
reference are of one state of them, or there is no bundle.
"""

import base64
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from aotc.base.errors import CaptureError
from aotc.bundle.sign.signer import LocalSigner
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.base.digest import sha256
from tests.conftest import manifest_of
from tests.waiting import until

TARGETS = Path(__file__).parents[2] / "targets"

MANIFEST = manifest_of("""
name = "changing"
[weights.p]
source = "p.safetensors"
[dimensions.n]
range = [1, 4]
profiles = [4]
[entry_points.f]
function = "program:f"
bind = { p = "p" }
inputs.x = { shape = ["n"], dtype = "float32" }
out_of_profile = { n = "pad" }
fixtures.file = "x.npz"
""")

PROGRAM = """
import os
from pathlib import Path

import numpy as np
import safetensors.numpy

HERE = Path(__file__).parent


def f(p, x):
    CHANGE
    return x * p["w"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "changing.toml").write_text(MANIFEST)
    save_file({"w": np.full(1, 3, np.float32)}, tmp_path / "p.safetensors")
    np.savez(tmp_path / "x.npz", x=np.ones(4, np.float32))
    return tmp_path


def built(project: Path, change: str) -> Built:
    """Return what comes of a program that does something whenever it is traced."""
    (project / "program.py").write_text(PROGRAM.replace("CHANGE", change))
    signer = LocalSigner.ephemeral()
    return build(project / "changing.toml", project / "changing.aotb", BuildOptions(signer=signer))


def test_provenance_names_the_weights_that_are_in_the_bundle(project: Path) -> None:
    first = sha256((project / "p.safetensors").read_bytes())
    save = "safetensors.numpy.save_file({'w': np.full(1, 7, np.float32)}, HERE / 'p.safetensors')"
    done = built(project, save)
    assert load_file(project / "p.safetensors")["w"] == 7
    assert done.attestation is not None
    statement = json.loads(base64.b64decode(json.loads(done.attestation.envelope)["payload"]))
    files = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    (named,) = (f["digest"]["sha256"] for f in files if f["name"] == "p.safetensors")
    assert f"sha256:{named}" == first
    assert np.float32(3).tobytes() in (project / "changing.aotb").read_bytes()
    assert np.float32(7).tobytes() not in (project / "changing.aotb").read_bytes()


def test_a_reference_of_another_source_is_refused(project: Path) -> None:
    with pytest.raises(CaptureError) as refused:
        built(project, "Path(__file__).write_text(Path(__file__).read_text() + '# more')")
    assert {(f.code, f.where) for f in refused.value.findings} == {("AOTC-E840", "program.py")}
    assert not (project / "changing.aotb").exists()


def test_fixtures_and_trials_have_the_recorded_inputs_that_the_capture_read(project: Path) -> None:
    done = built(project, "np.savez(HERE / 'x.npz', x=np.full(4, os.getpid(), np.float32))")
    assert done.program.files["x.npz"] != sha256((project / "x.npz").read_bytes())


WRITES: dict[str, Callable[[BinaryIO], object]] = {
    "other numbers": lambda file: file.seek(-4, os.SEEK_END) and file.write(b"1234"),
    "more of them": lambda file: file.seek(0, os.SEEK_END) and file.write(b"1234"),
    "the end cut off": lambda file: file.truncate(2**20),
    "nothing but the time": lambda file: os.utime(file.fileno(), (1, 1)),
}
CUT = "aotc-build-*/weights.p/*"
"""What there is in the build's scratch folder when weights are being read."""


@pytest.mark.parametrize("write", WRITES)
def test_weights_that_are_written_into_while_they_are_read_end_the_build_in_one_error(
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    write: str,
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    weights = project / "p.safetensors"
    save_file({"w": np.ones(1, np.float32), "more": np.zeros(2**25, np.float32)}, weights)
    (project / "program.py").write_text(PROGRAM.replace("CHANGE", "pass"))

    def change() -> None:
        until(lambda: any(scratch.glob(CUT)), "weights are cut")
        with weights.open("r+b") as file:
            WRITES[write](file)

    before = {path.name for path in project.iterdir()} | {"__pycache__"}
    with ThreadPoolExecutor(1) as beside:
        changed = beside.submit(change)
        with pytest.raises(CaptureError) as refused:
            build(project / "changing.toml", output=project / "changing.aotb")
        changed.result()
    (finding,) = refused.value.findings
    assert finding.code == "AOTC-E840" and "p.safetensors" in finding.found
    assert {path.name for path in project.iterdir()} <= before
    assert not [*scratch.glob("aotc-build-*")]


def test_a_function_that_is_gone_when_plain_jax_runs_is_told_as_missing(project: Path) -> None:
    manifest = MANIFEST.replace('{ shape = ["n"], dtype = "float32" }', '{ like = "program:like" }')
    manifest = manifest.replace('out_of_profile = { n = "pad" }', "")
    manifest = manifest.replace("[dimensions.n]\nrange = [1, 4]\nprofiles = [4]\n", "")
    (project / "changing.toml").write_text(manifest)
    like = """
def like():
    return np.zeros(4, np.float32)


if (HERE / "captured").exists():
    del like
"""
    (project / "program.py").write_text(PROGRAM.replace("CHANGE", "pass") + like)

    def begun(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("reference", 0):
            (project / "captured").touch()

    with pytest.raises(CaptureError) as refused:
        build(project / "changing.toml", project / "changing.aotb", BuildOptions(on_stage=begun))
    assert {f.code for f in refused.value.findings} == {"AOTC-E820"}


def test_a_manifest_that_changes_after_it_was_read_is_refused(project: Path) -> None:
    (project / "program.py").write_text(PROGRAM.replace("CHANGE", "pass"))
    manifest = project / "changing.toml"

    def begun(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("capture", 0):
            manifest.write_text(MANIFEST.replace("profiles = [4]", "profiles = [2, 4]"))

    with pytest.raises(CaptureError) as refused:
        build(manifest, project / "changing.aotb", BuildOptions(on_stage=begun))
    assert [(f.code, f.where) for f in refused.value.findings] == [("AOTC-E840", "changing.toml")]
    assert not (project / "changing.aotb").exists()
