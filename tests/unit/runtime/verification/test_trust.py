"""Policies and keys; signatures themselves are attacked in tests/hostile."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

from aotc.signing.signer import LocalSigner
from aotc.signing.trust_file import policy_text
from aotc_runtime.errors import TrustError
from aotc_runtime.schema.policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.keys import load_public_key
from aotc_runtime.verification.rules import check_identity
from aotc_runtime.verification.trust import policy_keys, read_policy

from ..samples import manifest

PEM = LocalSigner.ephemeral().public_pem()


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "trust.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def pem_of(key: object) -> str:
    public = key.public_key()  # type: ignore[attr-defined]
    return str(
        public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ).decode()
    )


def test_a_policy_that_the_toolchain_writes_is_read(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, policy_text("digits", [PEM], 1)))
    assert (policy.name, policy.threshold, policy.minimum_version) == ("digits", 1, "")
    assert len(policy_keys(policy)) == 1


def test_key_files_are_found_beside_the_policy_and_read_in(tmp_path: Path) -> None:
    (tmp_path / "ci.pub").write_text(PEM)
    text = 'schema = 1\nname = "x"\n[[keys]]\npublic_key_file = "ci.pub"\nname = "ci"\n'
    policy = read_policy(written(tmp_path, text))
    assert policy.keys == (TrustedKey(public_key=PEM, name="ci"),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "schema = ",
        b"\xff",
        'name = "x"\n[[keys]]\npublic_key = "x"',
        'schema = 2\nname = "x"\n[[keys]]\npublic_key = "x"',
        'schema = 1\n[[keys]]\npublic_key = "x"',
        'schema = 1\nname = ""\n[[keys]]\npublic_key = "x"',
        'schema = 1\nname = "x"\nkeys = []',
        'schema = 1\nname = "x"\n[[keys]]\n',
        'schema = 1\nname = "x"\nthreshold = 0\n[[keys]]\npublic_key = "x"',
        'schema = 1\nname = "x"\nthreshold = 1.0\n[[keys]]\npublic_key = "x"',
        'schema = 1\nname = "x"\nthreshold = "1"\n[[keys]]\npublic_key = "x"',
        'schema = 1\nname = "x"\nunknown = 1\n[[keys]]\npublic_key = "x"',
        'schema = 1\nname = "x"\n[[keys]]\npublic_key = "x"\nunknown = 1',
        'schema = 1\nname = "x"\nminimum_version = "newest"\n[[keys]]\npublic_key = "x"',
        'schema = 1\nname = "x"\n[[keys]]\npublic_key_file = "a\\u0000b"',
        "a = " + "[" * 10_000,
    ],
)
def test_a_policy_that_says_something_else_is_refused(text: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(TrustError) as refused:
        read_policy(written(tmp_path, text))
    assert refused.value.code == "AOTC-E309"


def test_a_policy_or_key_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrustError) as refused:
        read_policy(tmp_path / "missing.toml")
    assert refused.value.code == "AOTC-E308"
    text = 'schema = 1\nname = "x"\n[[keys]]\npublic_key_file = "gone.pub"'
    with pytest.raises(TrustError) as refused:
        read_policy(written(tmp_path, text))
    assert refused.value.code == "AOTC-E308" and "gone.pub" in refused.value.findings[0].where


@pytest.mark.parametrize("curve", ["ed25519", "p256"])
def test_a_key_is_named_by_the_hash_of_its_public_key_info(curve: str) -> None:
    signer = LocalSigner(
        ed25519.Ed25519PrivateKey.generate()
        if curve == "ed25519"
        else ec.generate_private_key(ec.SECP256R1())
    )
    key = load_public_key(signer.public_pem(), "ci", "x")
    der = signer.key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert key.id == hashlib.sha256(der).hexdigest() == signer.key_id
    assert key.verify(signer.sign(b"message"), b"message")
    assert not key.verify(signer.sign(b"message"), b"another")
    assert not key.verify(b"", b"message")
    assert not key.verify(LocalSigner.ephemeral().sign(b"message"), b"message")


@pytest.mark.parametrize(
    "pem",
    [
        "",
        "no key",
        PEM[:-40],
        PEM.replace("MC", "XC"),
        pem_of(rsa.generate_private_key(65537, 2048)),
        pem_of(ec.generate_private_key(ec.SECP384R1())),
        pem_of(x25519.X25519PrivateKey.generate()),
        PEM.replace("PUBLIC", "PRIVATE"),
    ],
    ids=["empty", "text", "cut", "damaged", "rsa", "p384", "x25519", "private"],
)
def test_what_is_no_ed25519_or_p256_public_key_is_refused(pem: str) -> None:
    with pytest.raises(TrustError) as refused:
        load_public_key(pem, "ci", "here")
    assert refused.value.code == "AOTC-E310" and refused.value.findings[0].where == "here"


@pytest.mark.parametrize(
    "spelled", [PEM + "\n", "\n" + PEM, PEM.replace("\n", "\r\n"), PEM.strip()]
)
def test_the_same_key_in_another_spelling_is_the_same_key(spelled: str) -> None:
    assert load_public_key(spelled, "", "x").id == load_public_key(PEM, "", "x").id


def test_the_threshold_is_at_most_the_number_of_distinct_keys() -> None:
    other = TrustedKey(public_key=LocalSigner.ephemeral().public_pem())
    key = TrustedKey(public_key=PEM)
    assert len(policy_keys(TrustPolicy(schema=1, name="x", keys=(key, other), threshold=2))) == 2
    with pytest.raises(TrustError) as refused:
        policy_keys(TrustPolicy(schema=1, name="x", keys=(key, key), threshold=2))
    assert refused.value.code == "AOTC-E309"


@pytest.mark.parametrize(
    ("name", "minimum", "expected"),
    [
        ("sample", "", []),
        ("sam*", "1.2.0", []),
        ("s?mple", "1.1", []),
        ("other", "", ["AOTC-E306"]),
        ("SAMPLE", "", ["AOTC-E306"]),
        ("sample", "1.2.1", ["AOTC-E307"]),
        ("sample", "1.2.0.post1", ["AOTC-E307"]),
        ("other", "2", ["AOTC-E306", "AOTC-E307"]),
    ],
)
def test_name_and_version_are_checked_together(
    name: str, minimum: str, expected: list[str]
) -> None:
    policy = TrustPolicy(
        schema=1, name=name, keys=(TrustedKey(public_key=PEM),), minimum_version=minimum
    )
    assert [finding.code for finding in check_identity(manifest(), policy)] == expected
