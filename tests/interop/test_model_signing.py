"""OpenSSF Model Signing in both directions, with the package from PyPI."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.sign.signing_keys import KeyType
from aotc.commands.attest.model_signature import require_model_signature
from aotc_runtime.base.errors import TrustError

from . import page

SECTION = "OpenSSF Model Signing"


def verify(folder: Path, key: str = "release.pub") -> int:
    """model_signing's verdict on the page's model.sig."""
    program = Path(sys.executable).parent / "model_signing"
    arguments = ("verify", "key", "digits", "--signature", "model.sig", "--public_key", key)
    return subprocess.run([program, *arguments], cwd=folder, check=False).returncode


@pytest.fixture(scope="module")
def _attested(model_signing: None, _signed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(_signed, tmp_path_factory.mktemp("attested") / "page"))
    page.require(SECTION, folder)
    return folder


@pytest.fixture
def attested(_attested: Path, tmp_path: Path) -> Path:
    """The page's folder with model.sig and theirs.sig."""
    return Path(shutil.copytree(_attested, tmp_path / "page"))


def test_each_accepts_what_the_other_signed(attested: Path) -> None:
    assert verify(attested) == 0
    ours, theirs = (json.loads((attested / n).read_text()) for n in ("model.sig", "theirs.sig"))
    assert ours.keys() == theirs.keys()
    assert ours["mediaType"] == theirs["mediaType"]
    assert ours["verificationMaterial"] == theirs["verificationMaterial"]


@pytest.mark.parametrize("change", ["changed", "missing", "extra"])
def test_model_signing_refuses_another_folder_under_our_signature(
    attested: Path, change: str
) -> None:
    index = attested / "digits" / "index.json"
    if change == "changed":
        index.write_bytes(index.read_bytes() + b" ")
    elif change == "missing":
        index.unlink()
    else:
        (attested / "digits" / "more").write_text("")
    assert verify(attested) != 0


def test_model_signing_refuses_our_signature_under_another_key(attested: Path) -> None:
    other = LocalSigner.ephemeral(KeyType.ECDSA_P256)
    (attested / "other.pub").write_text(other.public_pem())
    assert verify(attested, "other.pub") != 0


def test_a_folder_signed_since_is_refused_under_their_signature(attested: Path) -> None:
    index = attested / "digits" / "index.json"
    index.write_bytes(index.read_bytes().replace(b"}", b" }", 1))
    with pytest.raises(TrustError) as caught:
        require_model_signature(
            attested / "digits", attested / "theirs.sig", attested / "release.pub"
        )
    assert caught.value.code == "AOTC-E354"


def test_another_curve_that_model_signing_takes_is_refused_by_name(attested: Path) -> None:
    command = "openssl ecparam -name secp384r1 -genkey -noout -out p384.key"
    subprocess.run(command.split(), cwd=attested, check=True)
    command = "openssl pkey -in p384.key -pubout -out p384.pub"
    subprocess.run(command.split(), cwd=attested, check=True)
    program = Path(sys.executable).parent / "model_signing"
    signing = ("sign", "key", "digits", "--signature", "p384.sig", "--private_key", "p384.key")
    subprocess.run([program, *signing], cwd=attested, check=True)
    with pytest.raises(TrustError) as caught:
        require_model_signature(attested / "digits", attested / "p384.sig", attested / "p384.pub")
    assert caught.value.code == "AOTC-E310"
