"""The recording's own side: what can be recorded, how inputs are cut, and environments that cannot
run a model. What frameworks compute is tested in `tests/frontends`.
"""

import ast
import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from aotc import commands
from aotc.capture.model_files.frontend_registry import RECORDABLE
from aotc.commands.record_expected import recording_process
from aotc.commands.record_expected.record_expected_command import record_expected
from aotc.commands.record_expected.recording_process import _cut, enter_expected, record
from aotc.config.build_manifest import read_build_manifest
from aotc_runtime.base.errors import AotcError
from tests.refusals import error_of

MANIFESTS = Path(__file__).parents[4] / "manifests"


def test_an_entry_point_that_is_no_model_with_recorded_inputs_is_refused() -> None:
    for name, entry_point in (("digits", None), ("resnet", "other")):
        with pytest.raises(AotcError) as refused:
            record(MANIFESTS / f"{name}.toml", entry_point, Path(sys.executable))
        assert refused.value.code == "AOTC-E831"


@pytest.mark.parametrize("python", [sys.executable, "/nowhere/python", "/"])
def test_python_without_framework_writes_nothing(python: str, tmp_path: Path) -> None:
    given = [str(MANIFESTS / "resnet.toml"), "--python", python, "--json"]
    hint = "pass `--python /bin/python`" if python == "/" else "pass --python of an environment"
    ended = CliRunner().invoke(record_expected, [*given, "-o", str(tmp_path / "e.npz")])
    assert ended.exit_code and "AOTC-E843" in ended.output and hint in ended.output
    assert "main(Path" not in ended.output and not [*tmp_path.iterdir()]


def test_a_manifest_may_name_the_file_that_is_written(tmp_path: Path) -> None:
    text = (MANIFESTS / "resnet.toml").read_text(encoding="utf-8")
    for name in ("resnet/resnet.pt2", "resnet/inputs.npz"):
        text = text.replace(name, str(MANIFESTS / name))
    new = tmp_path / "new.npz"
    path = tmp_path / "resnet.toml"
    path.write_text(text.replace("resnet/expected.npz", str(new)), encoding="utf-8")
    for written, code in ((new, "AOTC-E843"), (None, "AOTC-E808")):
        refused = error_of(AotcError, record, path, None, Path("/nowhere/python"), written)
        assert refused.code == code


STRANGE: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to(MANIFESTS / "resnet/expected.npz"),
    "hard link": lambda path: path.hardlink_to(path.with_name("0.npz")),
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "nothing": lambda path: None,
    "no archive": lambda path: path.write_bytes(b"x"),
    "compressed": lambda path: np.savez_compressed(path, np.zeros(2**20)),
    "pickled": lambda path: np.savez(path, np.array([None])),
    "fewer arrays": lambda path: np.savez(path),
}


@pytest.mark.parametrize("file", ["0.results.npz", "0.names.json", "framework"])
@pytest.mark.parametrize("kind", STRANGE)
def test_strange_results_of_the_framework_process_are_refused(
    kind: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may control that process, and this one may read keys."""
    if file != "0.results.npz" and kind in ("no archive", "compressed", "pickled", "fewer arrays"):
        pytest.skip("these are texts")

    def run(python: Path, script: object, folder: Path, *rest: object) -> None:
        for calls in folder.glob("*.npz"):
            np.savez(folder / f"{calls.stem}.results.npz", np.zeros(2))
            (folder / f"{calls.stem}.names.json").write_text('["result"]')
        (folder / "framework").write_text("numpy")
        (folder / file).unlink()
        STRANGE[kind](folder / file)

    monkeypatch.setattr(recording_process, "run_script", run)
    refused = error_of(AotcError, record, MANIFESTS / "resnet.toml", None, Path(sys.executable))
    assert refused.code == "AOTC-E843"


@pytest.mark.parametrize(
    "script", ["record_expected/model_recorder.py", "import_tensorflow/tensorflow_exporter.py"]
)
def test_what_runs_where_a_framework_is_is_written_for_older_pythons(script: str) -> None:
    text = Path(commands.__file__).parent.joinpath(script).read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 10))


def test_the_recorder_opens_the_files_that_init_and_messages_name() -> None:
    text = recording_process.RECORDER.path.read_text(encoding="utf-8")
    assert {*re.findall(r'"(\.\w+)": _', text)} == {*RECORDABLE}


def test_inputs_are_cut_as_fixtures_are() -> None:
    spec = read_build_manifest(MANIFESTS / "resnet.toml").entry_points["classify"]
    image = np.arange(2 * 3 * 16 * 16).reshape(2, 3, 16, 16)
    found = _cut(spec, {"image": image}, {"batch": 3})["image"]
    np.testing.assert_array_equal(found, image[[0, 1, 0]])


@pytest.mark.parametrize("fixtures", ["[entry_points.net.fixtures]\nfile = 'in.npz'  # ours\n", ""])
def test_results_are_entered_in_the_manifest(fixtures: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    inline = "" if fixtures else "fixtures = { file = 'in.npz' }\n"
    path.write_text(f"# kept\n[entry_points.net]\nsource = 'net.onnx'\n{inline}{fixtures}")
    assert enter_expected(path, "net", tmp_path / "out" / "e.npz") == 'expected = "out/e.npz"'
    text = path.read_text()
    entered = tomllib.loads(text)["entry_points"]["net"]["fixtures"]
    assert entered == {"file": "in.npz", "expected": "out/e.npz"}
    assert text.startswith("# kept\n") and ("# ours" in text) == bool(fixtures)
    assert enter_expected(path, "net", tmp_path / "out" / "e.npz") is None
    assert path.read_text() == text
