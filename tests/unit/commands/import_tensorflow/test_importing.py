"""The import's own side: its options, and environments that cannot export. What TensorFlow exports
is tested in `tests/frontends/tensorflow_files`.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from aotc.base.errors import CaptureError
from aotc.base.foreign_python import Script
from aotc.base.workers import worker_environment
from aotc.commands.import_tensorflow import tensorflow_import
from aotc.commands.import_tensorflow.import_tensorflow_command import import_tensorflow
from aotc.commands.import_tensorflow.tensorflow_import import Imported, import_signature, write


@pytest.fixture
def saved_model(tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"")
    return folder


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"saved_model\.pb") as caught:
        import_signature(tmp_path, Path(sys.executable), None, [{}], None)
    assert caught.value.code == "AOTC-E843"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc")])
def test_a_model_with_anything_but_files_and_folders_is_refused(
    make: Callable[[Path], None], saved_model: Path
) -> None:
    make(saved_model / "variables")
    with pytest.raises(CaptureError, match="variables: neither a file nor a folder") as caught:
        import_signature(saved_model, Path(sys.executable), None, [{}], None)
    assert caught.value.code == "AOTC-E843"


def test_a_python_without_tensorflow_is_refused_with_what_it_said(saved_model: Path) -> None:
    with pytest.raises(CaptureError, match="No module named 'tensorflow'") as caught:
        import_signature(saved_model, Path(sys.executable), None, [{}], None)
    assert caught.value.code == "AOTC-E843"


def test_a_python_that_is_not_there_is_refused(saved_model: Path, tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught:
        import_signature(saved_model, tmp_path / "python", None, [{}], None)
    assert caught.value.code == "AOTC-E843"


def test_no_passphrases(saved_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = "-".join(f"${name}" for name in ("OTHER", *worker_environment.SECRET))
    python = python_of(tmp_path, f'echo "{named}"; exit 1')
    for name in worker_environment.SECRET:
        monkeypatch.setenv(name, "a passphrase")
    monkeypatch.setenv("OTHER", "known")
    with pytest.raises(CaptureError, match="known--") as caught:
        import_signature(saved_model, python, None, [{}], None)
    assert "a passphrase" not in str(caught.value)


def python_of(folder: Path, script: str) -> Path:
    """Return a command that does this in place of an environment's Python. $3: its folder."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_changing_model_is_refused(saved_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_script(python: Path, script: Script, folder: Path, model: str, size: int) -> None:
        (saved_model / "saved_model.pb").write_bytes(b"another")
        (folder / script.result).write_bytes(b"")

    monkeypatch.setattr(tensorflow_import, "run_script", run_script)
    with pytest.raises(CaptureError) as caught:
        import_signature(saved_model, Path(sys.executable), None, [{}], None)
    assert caught.value.code == "AOTC-E840"


def test_pipe_in_place_of_model_is_refused(saved_model: Path, tmp_path: Path) -> None:
    (saved_model / "saved_model.pb").unlink()
    os.mkfifo(saved_model / "saved_model.pb")
    with pytest.raises(CaptureError, match="no regular file") as caught:
        import_signature(saved_model, python_of(tmp_path, "sleep 60"), None, [{}], None)
    assert caught.value.code == "AOTC-E843"


@pytest.mark.parametrize("written", ["[", "[]", "{}", "\\377"])
def test_unusable_reason_is_a_failure(written: str, saved_model: Path, tmp_path: Path) -> None:
    """The process may be killed while it writes them."""
    script = f"printf '{written}' > $3/refused.json; echo > $3/model.tfhlo"
    with pytest.raises(CaptureError) as caught:
        import_signature(saved_model, python_of(tmp_path, script), None, [{}], None)
    assert caught.value.code == "AOTC-E843"


def test_what_is_written_is_told(tmp_path: Path) -> None:
    told = write(Imported(b"model", b"results"), tmp_path / "m.tfhlo", tmp_path / "e.npz")
    assert (tmp_path / "m.tfhlo").read_bytes() == b"model"
    assert (tmp_path / "e.npz").read_bytes() == b"results"
    assert told["output"] == str(tmp_path / "m.tfhlo")


@pytest.mark.parametrize(
    "more", [["--inputs", "i.npz"], ["--expected", "e.npz"], ["--output", "model.pb"]]
)
def test_options_that_do_not_fit_are_refused(more: list[str]) -> None:
    given = ["saved", "--python", "python", "--output", "m.tfhlo", *more]
    assert CliRunner().invoke(import_tensorflow, given).exit_code == 2
