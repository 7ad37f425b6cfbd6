"""Policies and keys; signatures themselves are attacked in tests/hostile."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.base import limits
from aotc_runtime.base.errors import TrustError
from aotc_runtime.schema.trust_policy import (
    Accepts,
    MetricRule,
    Revoked,
    SizeLimits,
    TrustedKey,
    TrustPolicy,
)
from aotc_runtime.verification.certificate_rules import certifier_keys
from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from aotc_runtime.verification.policy_types import policy_problems
from aotc_runtime.verification.public_keys import load_public_key
from tests.refusals import error_of

from ..samples import refused

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
        f'schema = 1\nname = "x"\nthreshold = {2**64}\n[[keys]]\npublic_key = "x"',
    ],
)
def test_a_policy_that_says_something_else_is_refused(text: str | bytes, tmp_path: Path) -> None:
    with refused("AOTC-E309"):
        read_policy(written(tmp_path, text))


def test_a_policy_may_be_as_long_as_the_limit_and_no_longer(tmp_path: Path) -> None:
    text = policy_text("digits", [PEM]) + "#"
    text = text.ljust(limits.POLICY_BYTES_MAX, "x")
    assert read_policy(written(tmp_path, text)).name == "digits"
    refused = error_of(TrustError, read_policy, written(tmp_path, text + "x"))
    assert (refused.code, refused.findings[0].found) == ("AOTC-E309", "more")


@pytest.mark.parametrize(
    ("number", "too_long"),
    [
        (-(2**63) - 1, True),
        (-(2**63), False),
        (2**63 - 1, False),
        (2**63, True),
        # tomllib reads them, and Python does not print them.
        (f"[0, 0x{'f' * 4999}]", True),
    ],
)
def test_an_integer_has_64_bits_at_most(tmp_path: Path, number: object, too_long: bool) -> None:
    text = policy_text("digits", [PEM]) + f"\n[limits]\nblobs = {number}\n"
    try:
        read_policy(written(tmp_path, text))
        found = ""
    except TrustError as refused:
        found = refused.findings[0].found
    assert (found == "an integer of more than 64 bits") is too_long


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
        PEM.replace("\n-----END", f"\n{PEM.splitlines()[1]}\n-----END"),
        PEM.replace("=\n", "==\n"),
        PEM.replace("MC", "=MC"),
    ],
    ids=[
        "empty", "text", "cut", "damaged", "rsa", "p384", "x25519", "private",
        "two in one block", "more padding", "padding before it",
    ],
)  # fmt: skip
def test_what_is_no_ed25519_or_p256_public_key_is_refused(pem: str) -> None:
    refused = error_of(TrustError, load_public_key, pem, "ci", "here")
    assert refused.code == "AOTC-E310" and refused.findings[0].where == "here"


def test_everything_wrong_with_a_policy_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bytes.pub").write_bytes(b"\xff\xfe")
    text = (
        'schema = 1\nname = "x"\nminimum_version = "newest"\n'
        '[[keys]]\npublic_key_file = "one.pub"\n[[keys]]\npublic_key_file = "two.pub"\n'
        '[[keys]]\npublic_key = "x"\npublic_key_file = "ci.pub"\n[[keys]]\nname = "empty"\n'
        '[[keys]]\npublic_key = "x"\n'
        "not_before = 2027-01-01T00:00:00Z\nnot_after = 2026-01-01T00:00:00Z\n"
        '[[keys]]\npublic_key_file = "bytes.pub"\n'
    )
    refused = error_of(TrustError, read_policy, written(tmp_path, text))
    found = [(f.code[-4:], f.where.split(" ", 1)[1].split(" /")[0]) for f in refused.findings]
    assert sorted(found) == [
        ("E308", "keys[0]"),
        ("E308", "keys[1]"),
        ("E309", "keys[2]"),
        ("E309", "keys[3] empty"),
        ("E309", "keys[4]"),
        ("E309", "keys[5]"),
        ("E309", "minimum_version"),
    ]
    text = f'schema = 1\nname = "x"\n{KEY.format("one")}{KEY.format(PEM)}{KEY.format("two")}'
    refused = error_of(TrustError, read_policy, written(tmp_path, text))
    found = [(f.code[-4:], f.where.split(" ", 1)[1]) for f in refused.findings]
    assert found == [("E310", "keys[0]"), ("E310", "keys[2]")]


KEY = '[[keys]]\npublic_key = """{}"""\n'


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"threshold": 0}, "threshold"),
        ({"schema": 2}, "schema"),
        ({"minimum_build_time": datetime(2026, 1, 1)}, "minimum_build_time"),
        ({"furthest_fallback": "retry"}, "furthest_fallback"),
        ({"revoked": Revoked(keys=("short",))}, "revoked.keys[0]"),
        ({"accepts": Accepts(jaxlib=())}, "accepts.jaxlib"),
        ({"limits": SizeLimits(blobs=0)}, "limits.blobs"),
        ({"keys": (TrustedKey(public_key=PEM, not_after=datetime(2026, 1, 1)),)}, "not_after"),
        ({"name": object()}, "trust policy"),
    ],
    ids=["threshold", "schema", "time", "fallback", "id", "list", "limit", "window", "name"],
)
def test_policy_of_python_is_checked_as_read(change: dict[str, Any], place: str) -> None:
    fields: dict[str, Any] = {"schema": 1, "name": "x", "keys": (TrustedKey(public_key=PEM),)}
    (finding,) = error_of(TrustError, policy_keys, TrustPolicy(**{**fields, **change})).findings
    assert finding.code == "AOTC-E309" and finding.where.endswith(place)


@pytest.mark.parametrize("table", ["keys", "certifiers"])
def test_one_key_has_one_window(table: str) -> None:
    until = datetime(2027, 1, 1, tzinfo=UTC)
    keys = (TrustedKey(public_key=PEM, not_after=until), TrustedKey(public_key=PEM))
    plain = TrustPolicy(schema=1, name="x", keys=keys[1:])
    read = policy_keys if table == "keys" else certifier_keys
    refused = error_of(TrustError, read, msgspec.structs.replace(plain, **{table: keys}))
    (finding,) = refused.findings
    assert (finding.code, finding.where) == ("AOTC-E309", f"trust policy {table}[1]")
    # In other spellings too.
    same = [msgspec.structs.replace(keys[0], public_key=spelled) for spelled in SPELLED]
    assert len(read(msgspec.structs.replace(plain, **{table: (keys[0], *same)}))) == 1


SPELLED = (PEM + "\n", "\n" + PEM, PEM.replace("\n", "\r\n"), PEM.strip())


SMALL_ORDER = {
    "order 1": "01" + "00" * 31,
    "order 1, with a sign": "01" + "00" * 30 + "80",
    "order 1, spelled as p + 1": "ee" + "ff" * 30 + "7f",
    "order 1, spelled as p + 1, with a sign": "ee" + "ff" * 31,
    "order 2": "ec" + "ff" * 30 + "7f",
    "order 2, with a sign": "ec" + "ff" * 31,
    "order 4": "00" * 32,
    "order 4, with a sign": "00" * 31 + "80",
    "order 4, spelled as p": "ed" + "ff" * 30 + "7f",
    "order 4, spelled as p, with a sign": "ed" + "ff" * 31,
    "order 8": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "order 8, with a sign": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "order 8, another": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "order 8, another, with a sign": (
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"
    ),
}
"""All spellings of the points of edwards25519 whose order divides 8."""


@pytest.mark.parametrize("point", SMALL_ORDER.values(), ids=SMALL_ORDER.keys())
@pytest.mark.parametrize("table", ["keys", "certifiers"])
def test_a_key_of_small_order_is_nobodys(point: str, table: str) -> None:
    der = bytes.fromhex("302a300506032b6570032100" + point)
    body = base64.b64encode(der).decode()
    # On one line, and broken into two: the second is not read by the same code.
    for text in (body, f"{body[:20]}\n{body[20:]}"):
        pem = f"-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"
        policy = TrustPolicy(schema=1, name="x", keys=(TrustedKey(public_key=PEM),))
        bad = msgspec.structs.replace(policy, **{table: (TrustedKey(public_key=pem),)})
        with refused("AOTC-E310"):
            (policy_keys if table == "keys" else certifier_keys)(bad)


POLICY: dict[str, Any] = {"schema": 1, "name": "digits", "keys": [{"public_key": "x"}]}


@pytest.mark.parametrize(
    ("change", "where", "expected", "found"),
    [
        ({"schema": "1"}, "p schema", "1", '"1"'),
        ({"keys": [{"public_key": 1}]}, "p keys[0].public_key", "a non-empty string", "1"),
        ({"thresold": 1}, "p thresold", "one of: schema, name, keys, threshold", "an unknown key"),
        ({"keys": [{"pem": "x"}]}, "p keys[0].pem", "one of: public_key", "an unknown key"),
        ({"limits": {"bytes": 1}}, "p limits.bytes", "one of: blob_bytes", "an unknown key"),
        ({"threshold": 0}, "p threshold", "an integer of at least 1", "0"),
        ({"accepts": {"jaxlib": []}}, "p accepts.jaxlib", "a non-empty array", "[]"),
        ({"keys": "x" * 100}, "p keys", "an array", '"' + "x" * 76 + "..."),
        ({"name": {"public_key": "x"}}, "p name", "a non-empty string", "{'public_key': 'x'}"),
        ({"name": ["x"]}, "p name", "a non-empty string", "['x']"),
        ({"limits": 4096}, "p limits", "a table", "4096"),
        ({"revoked": {"keys": ["ci"]}}, "p revoked.keys[0]", "a key's id, 64 hexadecimal", '"ci"'),
        (
            {"minimum_build_time": datetime(2026, 1, 1)},
            "p minimum_build_time",
            "a time such as 2027-01-01T00:00:00Z",
            "2026-01-01T00:00:00",
        ),
    ],
)
def test_problem_is_placed(change: dict[str, Any], where: str, expected: str, found: str) -> None:
    (finding,) = policy_problems(POLICY | change, "p")
    assert (finding.code, finding.where, finding.found) == ("AOTC-E309", where, found)
    assert finding.expected.startswith(expected)


def test_what_is_no_policy_is_told_once() -> None:
    other, close = {"entry_points": {}, "targets": []}, {**POLICY, "nam": "x"}
    del close["name"]
    for document, found in ([1], "[1]"), (other, "a build manifest"), (close, "an unknown key"):
        assert [each.found for each in policy_problems(document, "p")] == [found]


def test_lines_and_words_that_come_close_are_told(tmp_path: Path) -> None:
    text = """name = "digits"
threshold = 1
thresold = 1
furthest_fallback = "splti"
minimum_build_time = 2026-01-01T00:00:00
numerics = "ieee"
precisions = ["int8", "int2"]

[[keys]]
public_key = "x"
not_after = "soon"

[revoked]
roots = [
    "sha256:1",
]
"""
    path = tmp_path / "trust.toml"
    path.write_text(text)
    refused = error_of(TrustError, read_policy, path)
    found = {f.where.removeprefix(f"{path}"): f for f in refused.findings}
    assert found.pop(":1 schema").found == "no such key"
    assert sorted(found) == [
        *(":11 keys[0].not_after", ":15 revoked.roots[0]", ":3 thresold", ":4 furthest_fallback"),
        *(":5 minimum_build_time", ":7 precisions[1]"),
    ]
    assert found[":3 thresold"].hint == "did you mean `threshold`?"
    assert found[":4 furthest_fallback"].hint == "did you mean `split`?"
    assert found[":4 furthest_fallback"].expected == "one of: compile, fail, pad, range, split"
    assert found[":7 precisions[1]"].hint == "did you mean `int8`?"
    expected = "one of: bfloat16, dynamic, float32, int4, int8, static"
    assert found[":7 precisions[1]"].expected == expected
    assert "without quotes" in found[":11 keys[0].not_after"].hint


def test_a_threshold_that_no_keys_reach_names_its_file_and_line(tmp_path: Path) -> None:
    """One key in two spellings is one key."""
    path = tmp_path / "trust.toml"
    pem = LocalSigner.ephemeral().public_pem()
    keys = "".join(
        f"[[keys]]\npublic_key = {json.dumps(each)}\n" for each in (pem, pem.replace("\n", "\r\n"))
    )
    path.write_text(f'schema = 1\nname = "x"\nthreshold = 2\n{keys}')
    (finding,) = error_of(TrustError, read_policy, path).findings
    assert (finding.code, finding.where) == ("AOTC-E309", f"{path}:3 threshold")


@pytest.mark.parametrize(
    ("rules", "place", "expected"),
    [
        ('"top1" = 0.9', "metrics.top1", 'such as "classify.top1"'),
        ("classify.top1 = 0.9", "metrics.classify", 'such as "classify.top1"'),
        ('"classify.top1" = "0.9"', 'metrics."classify.top1"', "a number"),
        ('"classify.top1" = true', 'metrics."classify.top1"', "a number"),
        ('"classify.top1" = nan', 'metrics."classify.top1"', "a finite number"),
        ('"classify.top1" = inf', 'metrics."classify.top1"', "a finite number"),
        ('"classify.top1" = { minimum = nan }', 'metrics."classify.top1"', "a finite number"),
        ('"c.top1" = { minimum = 1, maximum = 1 }', 'metrics."c.top1"', "one of minimum and"),
        ('"c.top1" = { samples = 9 }', 'metrics."c.top1"', "one of minimum and maximum"),
        ('"c.top1" = { maximum = 1, samples = 0 }', 'top1".samples', "an integer of at least 1"),
        ('"c.top1" = { maximim = 1 }', 'top1".maximim', "one of: minimum, maximum, samples"),
    ],
)
def test_metric_limits_are_finite(rules: str, place: str, expected: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{policy_text('digits', [PEM], 1)}\n[metrics]\n{rules}\n")
    findings = error_of(TrustError, read_policy, path).findings
    assert {finding.code for finding in findings} == {"AOTC-E309"}
    assert findings[-1].where.endswith(place)
    assert expected in " ".join(finding.expected for finding in findings)


def test_metrics_of_functions_and_whole_numbers_are_read(tmp_path: Path) -> None:
    rules = '"classify.my.metrics:f1" = 1\n"c.mae" = { maximum = 2, samples = 9 }'
    text = f"{policy_text('digits', [PEM], 1)}\n[metrics]\n{rules}\n"
    wanted = {"classify.my.metrics:f1": 1.0, "c.mae": MetricRule(maximum=2.0, samples=9)}
    assert read_policy(written(tmp_path, text)).metrics == wanted


@pytest.mark.parametrize(
    ("rules", "hint"),
    [
        ("precisions = []", "add a value; without the key, everything is accepted"),
        ('precisions = "int8"', 'write `["int8"]`'),
        ("minimum_build_time = 2026-01-01", "write it as 2026-01-01T00:00:00Z"),
        ("metrics = { classify.top1 = 0.9 }", 'write the key in quotes, such as `"classify.top1"`'),
        ('metrics = { "top1" = { minimum = 1 } }', "`aotc inspect` shows the metrics of a bundle"),
        ("[entry_points]\n[targets]", "pass the policy that `aotc trust init` wrote"),
        ("name = 1 2", "correct the syntax on this line; strings are written in quotes"),
    ],
)
def test_hints_name_what_to_write(rules: str, hint: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{rules}\n{policy_text('digits', [PEM], 1)}")
    refused = error_of(TrustError, read_policy, path)
    assert [finding.hint for finding in refused.findings] == [hint]
