"""Keys in a real PKCS#11 token, SoftHSM 2: the bundle they sign is one our runtime loads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import aotc_runtime
from aotc.base.errors import UsageError
from aotc.bundle.sign.signer_plugins import PluginSigner, open_signer
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from tests.conftest import Bundle
from tests.refusals import error_of

from .conftest import require
from .softhsm import PIN, SoftHsm

pytestmark = pytest.mark.pkcs11

CURVES = {
    "ed25519": ["-algorithm", "ed25519"],
    "p256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "p384": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
    "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
}


def nobody(prompt: str) -> str | None:
    """Nobody answers a prompt."""
    return None


@pytest.fixture(scope="module")
def token(softhsm: SoftHsm, tmp_path_factory: pytest.TempPathFactory) -> SoftHsm:
    """A token "test" with keys of several kinds, ids 01 to 04, made by openssl."""
    softhsm.new_token("test")
    folder = tmp_path_factory.mktemp("keys")
    for number, (name, options) in enumerate(CURVES.items(), start=1):
        pem = folder / f"{name}.pem"
        subprocess.run(["openssl", "genpkey", *options, "-out", pem], check=True)
        softhsm.import_key("test", name, f"{number:02}", pem)
        public = ["openssl", "pkey", "-in", pem, "-pubout", "-out", pem.with_suffix(".pub")]
        subprocess.run(public, check=True)
    return softhsm


@pytest.fixture(autouse=True)
def reachable(softhsm: SoftHsm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTHSM2_CONF", softhsm.environment["SOFTHSM2_CONF"])
    monkeypatch.setenv("AOTC_PKCS11_PIN", PIN)


def signer(token: SoftHsm, attributes: str, query: str = "") -> PluginSigner:
    return open_signer(token.uri(attributes, query), nobody)


def aotc(folder: Path, token: SoftHsm, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, as a user of the token runs it."""
    return subprocess.run(
        [Path(sys.executable).parent / "aotc", *arguments, "--json"],
        cwd=folder,
        env={**os.environ, **token.environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["ed25519", "p256"])
def test_bundle_loads(token: SoftHsm, digits_bundle: Bundle, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "digits.aotb"
    bundle.write_bytes(digits_bundle[0].read_bytes())
    uri = token.uri(f"token=test;object={name}")
    done = aotc(tmp_path, token, "sign", "digits.aotb", "--key", uri)
    assert done.returncode == 0, done.stdout
    key = signer(token, f"object={name}")
    assert json.loads(done.stdout)["key_id"] == key.key_id
    (tmp_path / "trust.toml").write_text(policy_text("digits", [key.public_pem()]))
    with aotc_runtime.load(bundle, trust=tmp_path / "trust.toml") as loaded:
        assert loaded.signers == (key.key_id,)
    attestations = len(read_root(open_bundle(bundle)).attestations)
    aotc(tmp_path, token, "sign", "digits.aotb", "--key", uri)
    assert len(read_root(open_bundle(bundle)).attestations) == attestations, "signed already"


def test_a_build_signs_in_the_token(token: SoftHsm, tmp_path: Path) -> None:
    manifest = Path(__file__).parents[2] / "manifests" / "digits.toml"
    uri = token.uri("token=test;object=ed25519")
    done = aotc(tmp_path, token, "build", str(manifest), "-o", "d.aotb", "--key", uri)
    assert done.returncode == 0, done.stdout
    key = signer(token, "object=ed25519")
    (tmp_path / "trust.toml").write_text(policy_text("digits", [key.public_pem()]))
    with aotc_runtime.load(tmp_path / "d.aotb", trust=tmp_path / "trust.toml") as loaded:
        assert loaded.signers == (key.key_id,)


def test_the_page_signs_with_a_token(softhsm: SoftHsm, signed: Path) -> None:
    before = (signed / "digits.aotb").read_bytes()
    require("PKCS#11 tokens", signed, **softhsm.environment)
    assert (signed / "digits.aotb").read_bytes() != before


@pytest.mark.parametrize(
    "attributes",
    ["token=test;object=p256", "object=p256", "id=%02", "token=test;id=%02;type=private"],
)
def test_label_id_and_token_name_one_key(token: SoftHsm, attributes: str) -> None:
    by_label = signer(token, "object=p256")
    assert signer(token, attributes).key_id == by_label.key_id
    assert signer(token, "object=ed25519").key_id != by_label.key_id


def test_pin_source_wins(token: SoftHsm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTC_PKCS11_PIN", "wrong")
    (tmp_path / "pin").write_text(f"{PIN}\nsecond line\n")
    for source in (tmp_path / "pin", f"file:{tmp_path / 'pin'}", f"file://{tmp_path / 'pin'}"):
        assert signer(token, "object=p256", f"&pin-source={source}").sign(b"message")


def test_missing_pin_is_asked_for(token: SoftHsm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AOTC_PKCS11_PIN")
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return PIN

    assert open_signer(token.uri("token=test;object=p256"), answer).sign(b"message")
    assert asked == ["PIN of test"]


@pytest.mark.parametrize(
    ("attributes", "code", "found"),
    [
        ("token=other;object=p256", "AOTC-E018", "0 matching tokens; present: "),
        ("token=test;serial=0;object=p256", "AOTC-E018", "0 matching tokens; present: "),
        ("token=test;object=gone", "AOTC-E018", "0"),
        ("token=test;object=p256;id=%01", "AOTC-E018", "0"),
        ("token=test;object=rsa", "AOTC-E018", "RSA"),
        ("token=test;object=p384", "AOTC-E018", "curve "),
    ],
)
def test_unusable_token_is_named(token: SoftHsm, attributes: str, code: str, found: str) -> None:
    (finding,) = error_of(UsageError, signer, token, attributes).findings
    assert (finding.code, finding.found[: len(found)]) == (code, found)


@pytest.mark.parametrize("pin", ["wrong", ""])
def test_bad_pin_is_not_repeated(token: SoftHsm, monkeypatch: pytest.MonkeyPatch, pin: str) -> None:
    monkeypatch.setenv("AOTC_PKCS11_PIN", pin)
    caught = error_of(UsageError, signer, token, "token=test;object=p256")
    (finding,) = caught.findings
    assert finding.code == "AOTC-E019"
    assert "wrong" not in str(caught)


@pytest.mark.parametrize("module", ["/gone.so", __file__, ""])
def test_a_library_that_is_none_is_one_finding(token: SoftHsm, module: str) -> None:
    caught = error_of(UsageError, open_signer, f"pkcs11:object=p256?module-path={module}", nobody)
    (finding,) = caught.findings
    assert finding.code == ("AOTC-E018" if module else "AOTC-E017")


def test_the_pin_is_not_shown_with_the_signer(token: SoftHsm) -> None:
    assert PIN not in repr(signer(token, "object=p256"))
