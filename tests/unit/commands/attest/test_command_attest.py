"""`aotc attest --openssf` and `aotc verify --openssf`: model signatures of real bundles."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Bundle = tuple[Path, Path]


@pytest.fixture
def folder(aotc: Run, digits_bundle: Bundle, tmp_path: Path) -> Path:
    """The current folder: digits.aotb and digits, trust.toml, and k.key of the kind that fits."""
    shutil.copyfile(digits_bundle[0], tmp_path / "digits.aotb")
    shutil.copyfile(digits_bundle[1], tmp_path / "trust.toml")
    with tarfile.open(tmp_path / "digits.aotb") as archive:
        archive.extractall(tmp_path / "digits", filter="data")
    aotc("keygen", "k", "--plain", "--type", "ecdsa-p256")
    return tmp_path


def verify(bundle: str, signature: str = "model.sig", key: str = "k.pub") -> list[str]:
    required = ["--openssf", signature, "--public-key", key]
    return ["verify", bundle, "--trust", "trust.toml", *required]


def test_the_signature_lies_beside_the_bundle_and_holds_for_both_forms(
    aotc: Run, folder: Path
) -> None:
    made = aotc("attest", "digits", "--openssf", "--key", "k.key", "--json").document
    assert made["output"] == str(folder / "model.sig")
    files = [path for path in (folder / "digits").rglob("*") if path.is_file()]
    assert made["files"] == len(files)
    for bundle in ("digits", "digits.aotb"):
        assert aotc(*verify(bundle), "--json").document["openssf"] == made["key_id"]
    assert made["key_id"][:16] in aotc(*verify("digits")).stdout
    attest = ["attest", "digits.aotb", "--openssf", "--key", "k.key"]
    aotc(*attest, "-o", "archive.sig")
    assert (folder / "archive.sig").read_bytes() == (folder / "model.sig").read_bytes()


def test_an_older_signature_is_replaced_and_nothing_else_is(
    aotc: Run, refused: Run, folder: Path
) -> None:
    attest = ["attest", "digits", "--openssf", "--key", "k.key"]
    for _ in range(2):
        assert aotc(*attest).exit_code == 0
    document = json.dumps(json.loads((folder / "model.sig").read_text()), indent=2)
    (folder / "model.sig").write_text(document)
    assert aotc(*attest).exit_code == 0, "also in the spelling of other tools"
    (folder / "notes").write_text("precious")
    refused([*attest, "-o", "notes"], 2, "AOTC-E004")
    refused([*attest, "-o", "trust.toml"], 2, "AOTC-E004")
    refused([*attest, "-o", "gone/model.sig"], 2, "AOTC-E003")
    assert (folder / "notes").read_text() == "precious"


@pytest.mark.parametrize("place", ["digits/model.sig", "digits/blobs/model.sig", "digits"])
def test_a_place_inside_the_bundle_is_refused(refused: Run, folder: Path, place: str) -> None:
    refused(["attest", "digits", "--openssf", "--key", "k.key", "-o", place], 2, "AOTC-E020")


def test_a_link_into_the_bundle_is_inside_too(refused: Run, folder: Path) -> None:
    (folder / "link").symlink_to("digits")
    attest = ["attest", "digits", "--openssf", "--key", "k.key"]
    refused([*attest, "-o", "link/model.sig"], 2, "AOTC-E020")


def test_the_kind_has_to_be_named_and_the_key_to_fit(aotc: Run, refused: Run, folder: Path) -> None:
    aotc("keygen", "ed", "--plain")
    refused(["attest", "digits", "--key", "k.key"], 2, "AOTC-E001")
    refused(["attest", "digits", "--openssf"], 2, "AOTC-E001")
    refused(["attest", "digits", "--openssf", "--key", "ed.key"], 2, "AOTC-E021")
    refused(["attest", "gone", "--openssf", "--key", "k.key"], 5, "AOTC-E108")
    assert not (folder / "model.sig").exists()


def test_a_damaged_bundle_is_not_signed(refused: Run, folder: Path) -> None:
    blob = max((folder / "digits").rglob("*"), key=lambda path: path.stat().st_size)
    blob.write_bytes(bytes(blob.stat().st_size))
    refused(["attest", "digits", "--openssf", "--key", "k.key"], 5, "AOTC-E201")
    assert not (folder / "model.sig").exists()


def test_signing_the_bundle_afterwards_is_noticed(aotc: Run, refused: Run, folder: Path) -> None:
    aotc("attest", "digits", "--openssf", "--key", "k.key")
    aotc("sign", "digits", "--key", "k.key")
    done = refused(verify("digits"), 5, "AOTC-E354")
    assert len(done.codes) == 3, "index.json, and the two files of an attestation"
    aotc("attest", "digits", "--openssf", "--key", "k.key")
    assert aotc(*verify("digits")).exit_code == 0


@pytest.mark.parametrize("change", ["changed", "missing", "extra"])
def test_a_folder_with_other_files_is_refused(
    aotc: Run, refused: Run, folder: Path, change: str
) -> None:
    aotc("attest", "digits", "--openssf", "--key", "k.key")
    index = folder / "digits" / "index.json"
    if change == "changed":
        index.write_bytes(index.read_bytes() + b" ")
        assert aotc("verify", "digits", "--trust", "trust.toml").exit_code == 0, "index is unsigned"
    elif change == "missing":
        index.unlink()
    else:
        (folder / "digits" / "blobs" / "sha256" / ("0" * 64)).write_bytes(b"")
    done = refused(verify("digits"), 5, "AOTC-E354")
    assert done.codes == ["AOTC-E354"]


def test_the_policy_still_decides(aotc: Run, refused: Run, folder: Path) -> None:
    aotc("attest", "digits", "--openssf", "--key", "k.key")
    (folder / "trust.toml").unlink()
    aotc("trust", "init", "--key", "k.pub", "--name", "digits")
    refused(verify("digits"), 5, "AOTC-E302")


def test_keys_and_signatures_that_are_none_are_refused(
    aotc: Run, refused: Run, folder: Path
) -> None:
    aotc("attest", "digits", "--openssf", "--key", "k.key")
    aotc("keygen", "other", "--plain", "--type", "ecdsa-p256")
    refused(verify("digits", key="other.pub"), 5, "AOTC-E352")
    refused(verify("digits", key="gone.pub"), 5, "AOTC-E308")
    refused(verify("digits", key="digits.aotb"), 5, "AOTC-E308")
    refused(verify("digits", key="k.key"), 5, "AOTC-E310")
    refused(verify("digits", signature="gone.sig"), 5, "AOTC-E351")
    refused(verify("digits", signature="digits"), 5, "AOTC-E351")
    refused(verify("digits", signature="trust.toml"), 5, "AOTC-E351")
    refused(verify("gone"), 5, "AOTC-E108")


@pytest.mark.parametrize("option", ["--openssf", "--public-key"])
def test_the_two_options_go_together(refused: Run, folder: Path, option: str) -> None:
    refused(["verify", "digits", "--trust", "trust.toml", option, "k.pub"], 2, "AOTC-E001")
