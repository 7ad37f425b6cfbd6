"""`aotc run`: inputs from files and fills, results to files, comparisons."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Bundle, Run


@pytest.fixture
def command(digits_bundle: Bundle, tmp_path: Path) -> list[str]:
    """The start of a command line; x.npy lies in the current folder."""
    np.save(tmp_path / "x.npy", np.ones((8, 64), np.float32))
    return ["run", str(digits_bundle[0]), "predict", "--trust", str(digits_bundle[1])]


def test_results_are_printed_and_written(aotc: Run, command: list[str], tmp_path: Path) -> None:
    done = aotc(*command, "--input", "image=@x.npy", "--output", "y.npz", "--json")
    assert done.exit_code == 0
    assert done.document["results"]["probabilities"]["shape"] == [8, 10]
    assert done.document["compilations"] == 0
    assert done.document["path"] == "predict[batch=8]"
    with np.load(tmp_path / "y.npz") as written:
        assert set(written.files) == {"label", "probabilities"}
        np.save(tmp_path / "p.npy", written["probabilities"] + np.float32(0.01))
        named = {f"probabilities[batch={size}]": written["probabilities"] for size in (1, 8)}
    np.savez(tmp_path / "recorded.npz", **named)
    np.savez(tmp_path / "other.npz", **{"probabilities[batch=1]": named["probabilities[batch=1]"]})
    again = [*command, "--input", "image=8x64xf32=1"]
    for file, code in (("y", 0), ("recorded", 0), ("other", 2)):
        assert aotc(*again, "--expect", f"@{file}.npz").exit_code == code
    differs = aotc(*again, "--expect", "probabilities=@p.npy")
    assert (differs.exit_code, differs.codes) == (8, ["AOTC-E954"])
    assert aotc(*again, "--expect", "probabilities=@p.npy", "--atol", "0.02").exit_code == 0
    as_json = aotc(*again, "--expect", "probabilities=@p.npy", "--json").document
    assert (as_json["ok"], as_json["exit_code"]) == (False, 8)


BAD_INPUTS: dict[str, tuple[list[str], str]] = {
    "none": ([], "AOTC-E013"),
    "an unknown name": (["image=@x.npy", "imag=@x.npy"], "AOTC-E013"),
    "no value": (["image"], "AOTC-E011"),
    "no name": (["=@x.npy"], "AOTC-E011"),
    "one name twice": (["image=@x.npy", "image=8x64xf32"], "AOTC-E011"),
    "a name from a file again": (["image=@x.npy", "@named.npz"], "AOTC-E011"),
    "two arrays for one input": (["image=@two.npz"], "AOTC-E011"),
    "no file": (["image=@gone.npy"], "AOTC-E012"),
    "a folder": (["image=@."], "AOTC-E012"),
    "an empty file": (["image=@empty.npy"], "AOTC-E012"),
    "half a file": (["image=@half.npy"], "AOTC-E012"),
    "Python objects": (["image=@objects.npy"], "AOTC-E012"),
    "an archive of text": (["@text.npz"], "AOTC-E012"),
    "an unknown dtype": (["image=8x64xf99"], "AOTC-E011"),
    "more than fits into memory": (["image=99999999999999x64xf32"], "AOTC-E011"),
    "axes without end": (["image=" + "1x" * 70 + "f32"], "AOTC-E011"),
    "another dtype": (["image=8x64xf64"], "AOTC-E606"),
    "another dtype in a file": (["@wide.npz"], "AOTC-E606"),
    "a size without profile": (["image=7x64xf32"], "AOTC-E611"),
    "no rows": (["image=0x64xf32"], "AOTC-E613"),
}


@pytest.mark.parametrize(("inputs", "code"), BAD_INPUTS.values(), ids=BAD_INPUTS.keys())
def test_inputs_that_cannot_be_used_are_refused_with_exit_code_2(
    refused: Run, command: list[str], tmp_path: Path, inputs: list[str], code: str
) -> None:
    np.savez(tmp_path / "two.npz", a=1, b=2)
    np.savez(tmp_path / "named.npz", image=np.ones((8, 64), np.float32))
    np.savez(tmp_path / "wide.npz", image=np.ones((8, 64)))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "half.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:300])
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("image", "no array")
    refused([*command, *(f"--input={text}" for text in inputs)], 2, code)


def test_run_passes_no_mask(refused: Run, encoder_bundle: Bundle, tmp_path: Path) -> None:
    command = ["run", str(encoder_bundle[0]), "encode", "--trust", str(encoder_bundle[1])]
    given = ["--input=tokens=1x16xi32=1", "--input=mask=1x16xpred=1"]
    done = refused([*command, *given], 2, "AOTC-E013")
    assert "input is added by the loader" in done.stderr
    wrong = refused([*command, *given, "--input=tokenz=1x16xi32"], 2, "AOTC-E013")
    assert "unknown mask, tokenz" in wrong.stderr and "added by the loader" in wrong.stderr


@pytest.mark.parametrize(
    ("options", "exit_code", "code"),
    [
        (["--output", "gone/y.npz"], 2, "AOTC-E003"),
        (["--output", "."], 2, "AOTC-E003"),
        (["--expect", "label=3"], 2, "AOTC-E013"),
        (["--expect", "nope=@x.npy"], 2, "AOTC-E013"),
        (["--expect", "label=@gone.npy"], 2, "AOTC-E012"),
        (["--target", "nope"], 7, "AOTC-E505"),
    ],
)
def test_options_that_cannot_be_met_are_refused(
    refused: Run, command: list[str], options: list[str], exit_code: int, code: str
) -> None:
    refused([*command, "--input", "image=@x.npy", *options], exit_code, code)


def test_unknown_entry_point_is_refused_with_known_ones(refused: Run, command: list[str]) -> None:
    command[2] = "nope"
    assert "predict" in refused([*command, "--input", "image=@x.npy"], 2, "AOTC-E602").stderr


def test_an_unwritable_place_is_told_before_anything_is_loaded(refused: Run) -> None:
    arguments = ["run", "gone", "predict", "--trust", "gone", "--output", "gone/y.npz"]
    refused(arguments, 2, "AOTC-E003")


def test_other_file_is_never_replaced(refused: Run, command: list[str], tmp_path: Path) -> None:
    policy = Path(command[-1])
    (tmp_path / "trust.toml").write_bytes(policy.read_bytes())
    refused([*command, "--input", "image=@x.npy", "--output", "trust.toml"], 2, "AOTC-E004")
    assert (tmp_path / "trust.toml").read_bytes() == policy.read_bytes()
