"""When a signature was made: by a timestamp of one of the policy's authorities, or nobody says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

from aotc.base.errors import UsageError
from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.timestamp import timestamp_client
from aotc.commands.timestamp.timestamp_client import timestamped
from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.base.rendering import reason_of
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import Revoked, TimestampAuthority, TrustPolicy
from aotc_runtime.verification import (
    policy_reader as trust,
)
from aotc_runtime.verification import (
    signature_timestamps,
)
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.public_keys import Trials

from .archives import on_disk
from .authorities import (
    Authority,
    answer_to,
    authority,
    by_hand,
    stamped,
    timestamp_in,
    with_timestamp,
)
from .doors import READY, Capture, at_every_door
from .provenances import DAY, ENDORSEMENT, attested, key_of
from .tampering import Documents, MemoryBundle, in_memory, put_together, take_apart

pytest.importorskip("rfc3161_client", reason="pip install 'aotc-runtime[timestamps]'")
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is the authority")

SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority") / "here")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that no policy names, although its certificates are named alike."""
    return authority(tmp_path_factory.mktemp("authority") / "elsewhere")


Sign = Callable[..., MemoryBundle]


@pytest.fixture
def sign(documents: Documents, ours: LocalSigner) -> Sign:
    """A bundle that `ours` signed, its envelope changed."""

    def signed(change: Callable[[bytes], bytes] = lambda envelope: envelope) -> MemoryBundle:
        attested(documents, (ours, ENDORSEMENT))
        documents.envelopes = [change(documents.envelopes[0])]
        return put_together(documents)

    return signed


def policy_of(ours: LocalSigner, *by: TimestampAuthority, **stated: Any) -> TrustPolicy:
    revoked = stated.pop("revoked", Revoked())
    return TrustPolicy(
        schema=1,
        name="digits",
        keys=(key_of(ours, **stated),),
        timestamp_authorities=by,
        revoked=revoked,
    )


def findings(
    bundle: MemoryBundle, policy: TrustPolicy, host: HostFacts, when: datetime
) -> list[Finding]:
    try:
        verify(bundle, policy, host, when.timestamp())
    except AotcError as error:
        return list(error.findings)
    return []


def codes(*arguments: Any) -> list[str]:
    return [found.code for found in findings(*arguments)]


def test_with_a_timestamp_a_bundle_outlives_its_key(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    now = datetime.now(UTC)
    window = {"not_before": now - DAY, "not_after": now + DAY}
    told = sign(lambda envelope: stamped(envelope, here))
    policy = policy_of(ours, here.trusted(), **window)
    assert codes(told, policy, host, now + 365 * DAY) == []
    assert codes(sign(), policy, host, now + 365 * DAY) == ["AOTC-E311"]
    assert codes(told, policy_of(ours, **window), host, now + 365 * DAY) == ["AOTC-E311"]
    assert codes(sign(), policy, host, now) == []


def test_the_window_is_asked_for_the_time_of_signing_at_both_ends(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    now = datetime.now(UTC)
    told = sign(lambda envelope: stamped(envelope, here))
    for window in ({"not_before": now + DAY}, {"not_after": now - DAY}):
        policy = policy_of(ours, here.trusted(), **window)
        (found,) = findings(told, policy, host, now + 2 * DAY)
        assert (found.code, found.found[:20]) == ("AOTC-E311", "a signature made at ")


def test_a_revocation_may_have_a_date(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    now = datetime.now(UTC)
    told = sign(lambda envelope: stamped(envelope, here))

    def revoked(**stated: Any) -> TrustPolicy:
        return policy_of(ours, here.trusted(), revoked=Revoked(**stated))

    before, after = ({ours.key_id: now + offset} for offset in (DAY, -DAY))
    assert codes(told, revoked(since=before), host, now + 2 * DAY) == []
    assert codes(told, revoked(since=after), host, now + 2 * DAY) == ["AOTC-E312"]
    (found,) = findings(sign(), revoked(since=before), host, now + 2 * DAY)
    assert found.code == "AOTC-E312" and "revoked.since, a check at " in found.found
    assert codes(sign(), revoked(since=before), host, now) == []
    never = revoked(since=before, keys=(ours.key_id,))
    assert codes(told, never, host, now + 2 * DAY) == ["AOTC-E312"]


def broken(here: Authority, elsewhere: Authority) -> dict[str, Callable[[bytes], bytes]]:
    """Timestamps that say nothing of the signature that they stand beside."""

    def of_another(envelope: bytes) -> bytes:
        return with_timestamp(envelope, answer_to(b"another signature", here))

    def of_the_payload(envelope: bytes) -> bytes:
        payload = base64.b64decode(json.loads(envelope)["payload"])
        return with_timestamp(envelope, answer_to(payload, here))

    def cut(envelope: bytes) -> bytes:
        made = base64.b64decode(timestamp_in(stamped(envelope, here)))
        return with_timestamp(envelope, base64.b64encode(made[:-9]).decode())

    def rejected(envelope: bytes) -> bytes:
        done = subprocess.run(
            here.command.split(), input=b"no query", capture_output=True, check=True
        )
        return with_timestamp(envelope, base64.b64encode(done.stdout).decode())

    return {
        "of another signature": of_another,
        "of what was signed": of_the_payload,
        "cut": cut,
        "a refusal": rejected,
        "no timestamp": lambda envelope: with_timestamp(envelope, "AAAA"),
    }


BROKEN = ("of another signature", "of what was signed", "cut", "a refusal", "no timestamp")


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("form", ["archive", "folder"])
def test_a_timestamp_of_something_else_refuses_the_bundle_at_every_door(
    how: str,
    form: str,
    sign: Sign,
    ours: LocalSigner,
    here: Authority,
    elsewhere: Authority,
    tmp_path: Path,
    capfd: Capture,
) -> None:
    """Also while the key is valid: it is damaged or forged, like a signature that does not fit."""
    path = on_disk(sign(broken(here, elsewhere)[how]), form, tmp_path)
    trust = written(tmp_path, ours, here)
    assert at_every_door(path, trust, capfd) == [("AOTC-E324", 5)] * 3
    without = written(tmp_path, ours, None)
    assert at_every_door(path, without, capfd) == [READY] * 3


def written(folder: Path, ours: LocalSigner, here: Authority | None, key: str = "") -> Path:
    text = (
        f'schema = 1\nname = "digits"\n[[keys]]\npublic_key = """\n{ours.public_pem()}"""\n{key}\n'
    )
    if here:
        (folder / "tsa.pem").write_text(here.root)
        text += '[[timestamp_authorities]]\nname = "here"\ncertificates_file = "tsa.pem"\n'
    path = folder / "trust.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_at_every_door_a_signature_counts_by_its_timestamp_once_its_key_has_ended(
    form: str, sign: Sign, ours: LocalSigner, here: Authority, tmp_path: Path, capfd: Capture
) -> None:
    told = on_disk(sign(lambda envelope: stamped(envelope, here)), form, tmp_path)
    ended = datetime.now(UTC)
    while datetime.now(UTC) <= ended:
        time.sleep(0.01)
    trust = written(tmp_path, ours, here, f"not_after = {ended.isoformat()}")
    assert at_every_door(told, trust, capfd) == [READY] * 3
    silent = tmp_path / "silent"
    silent.mkdir()
    plain = on_disk(sign(), form, silent)
    assert at_every_door(plain, trust, capfd) == [("AOTC-E311", 5)] * 3


def unknown(folder: Path, elsewhere: Authority, kind: str) -> Authority:
    match kind:
        case "another authority":
            return elsewhere
        case "a certificate that had expired":
            return authority(folder / "expired", days=(-20, -10))
        case "a certificate that was not valid yet":
            return authority(folder / "early", days=(10, 20))
        case _:
            return authority(folder / "root", root_days=(-20, -1), days=(-10, 10))


@pytest.mark.parametrize(
    "kind",
    [
        "another authority",
        "a certificate that had expired",
        "a certificate that was not valid yet",
        "a root that had expired",
    ],
)
def test_a_timestamp_that_no_authority_vouches_for_says_nothing(
    kind: str,
    sign: Sign,
    ours: LocalSigner,
    host: HostFacts,
    here: Authority,
    elsewhere: Authority,
    tmp_path: Path,
) -> None:
    other = unknown(tmp_path, elsewhere, kind)
    told = sign(lambda envelope: stamped(envelope, other))
    trusted = here if other is elsewhere else other
    now = datetime.now(UTC)
    policy = policy_of(ours, trusted.trusted(), not_after=now + DAY)
    assert codes(told, policy, host, now) == []
    (found,) = findings(told, policy, host, now + 2 * DAY)
    assert found.code == "AOTC-E311" and found.found.startswith("a check at ")
    assert "; its timestamp is by no authority of the policy (here: " in found.found


@pytest.mark.parametrize(
    ("purposes", "critical", "counts"),
    [
        ([Purpose.TIME_STAMPING], True, True),
        ([Purpose.SERVER_AUTH], True, False),
        ([Purpose.TIME_STAMPING, Purpose.SERVER_AUTH], True, False),
        ([Purpose.TIME_STAMPING], False, False),
        ([Purpose.ANY_EXTENDED_KEY_USAGE], True, False),
        ([], False, False),
    ],
    ids=["timestamps", "servers", "both", "not critical", "anything", "unsaid"],
)
def test_another_certificate_of_the_same_root_tells_no_time(
    purposes: list[x509.ObjectIdentifier],
    critical: bool,
    counts: bool,
    sign: Sign,
    ours: LocalSigner,
    host: HostFacts,
    here: Authority,
) -> None:
    """An authority's root may be a company's, which signs the certificates of its servers."""

    def told(envelope: bytes) -> bytes:
        made = base64.b64decode(json.loads(envelope)["signatures"][0]["sig"])
        return with_timestamp(envelope, by_hand(made, here, purposes, critical))

    now = datetime.now(UTC)
    policy = policy_of(ours, here.trusted(), not_after=now + DAY)
    expected = [] if counts else ["AOTC-E311"]
    assert codes(sign(told), policy, host, now + 2 * DAY) == expected


def test_one_authority_of_several_is_enough(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority, elsewhere: Authority
) -> None:
    now = datetime.now(UTC)
    told = sign(lambda envelope: stamped(envelope, here))
    both = (elsewhere.trusted("elsewhere"), here.trusted())
    assert codes(told, policy_of(ours, *both, not_after=now + DAY), host, now + 2 * DAY) == []


@pytest.mark.parametrize(("early", "expected"), [(299, []), (300, []), (302, ["AOTC-E324"])])
def test_a_timestamp_is_not_of_the_future(
    early: int,
    expected: list[str],
    sign: Sign,
    ours: LocalSigner,
    host: HostFacts,
    here: Authority,
) -> None:
    told = sign(lambda envelope: stamped(envelope, here))
    raw = base64.b64decode(timestamp_in(take_apart(told).envelopes[0]))
    made = signature_timestamps._decoded(raw, "x").tst_info.gen_time
    policy = policy_of(ours, here.trusted())
    assert codes(told, policy, host, made - early * SECOND) == expected


@pytest.mark.parametrize(
    ("digest", "expected"),
    [("sha384", []), ("sha512", []), ("sha1", ["AOTC-E324"]), ("sha224", ["AOTC-E324"])],
)
def test_a_timestamp_is_of_a_hash_that_nobody_can_forge(
    digest: str,
    expected: list[str],
    sign: Sign,
    ours: LocalSigner,
    host: HostFacts,
    here: Authority,
    tmp_path: Path,
) -> None:
    def of_the_signature(envelope: bytes) -> bytes:
        made = base64.b64decode(json.loads(envelope)["signatures"][0]["sig"])
        (tmp_path / "signature").write_bytes(made)
        query = [
            "openssl",
            "ts",
            "-query",
            "-cert",
            f"-{digest}",
            "-data",
            str(tmp_path / "signature"),
        ]
        asked = subprocess.run(query, capture_output=True, check=True).stdout
        done = subprocess.run(here.command.split(), input=asked, capture_output=True, check=True)
        return with_timestamp(envelope, base64.b64encode(done.stdout).decode())

    now = datetime.now(UTC)
    told = sign(of_the_signature)
    policy = policy_of(ours, here.trusted(), not_after=now + DAY)
    assert codes(told, policy, host, now + (2 * DAY if not expected else 0 * DAY)) == expected


def test_any_flipped_bit_of_a_timestamp_makes_it_say_nothing(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    """Or the same: some bits of an answer are about nothing, such as its status text."""
    now = datetime.now(UTC)
    window = {"not_before": now - DAY, "not_after": now + DAY}
    policy = policy_of(ours, here.trusted(), **window)
    told = sign(lambda envelope: stamped(envelope, here))
    envelope = take_apart(told).envelopes[0]
    good = base64.b64decode(timestamp_in(envelope))
    made = signature_timestamps._decoded(good, "x").tst_info.gen_time.timestamp()
    signature = base64.b64decode(json.loads(envelope)["signatures"][0]["sig"])
    for at in range(0, len(good), 3):
        bad = good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :]
        text = base64.b64encode(bad).decode()
        trials = Trials()
        try:
            found = signature_timestamps.moment_of(
                text, signature, policy, trials, "x", now.timestamp()
            )
        except AotcError as error:
            assert error.code == "AOTC-E324"
        else:
            assert not found.stamped or found.at == made, at


def test_a_timestamp_beyond_its_limit_is_refused(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    policy = policy_of(ours, here.trusted())
    long = "A" * (limits.TIMESTAMP_CHARACTERS_MAX + 4)
    told = sign(lambda envelope: with_timestamp(envelope, long))
    assert codes(told, policy, host, datetime.now(UTC)) == ["AOTC-E111"]
    longest = sign(lambda envelope: with_timestamp(envelope, long[4:]))
    assert codes(longest, policy, host, datetime.now(UTC)) == ["AOTC-E324"]
    odd = sign(lambda envelope: with_timestamp(envelope, "AAA"))
    assert codes(odd, policy, host, datetime.now(UTC)) == ["AOTC-E107"]


def test_asking_authorities_is_bounded(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    told = sign(lambda envelope: stamped(envelope, here))
    many = [here.trusted(str(number)) for number in range(300)]
    assert codes(told, policy_of(ours, *many), host, datetime.now(UTC)) == []
    other = [elsewhere_named(here, number) for number in range(300)]
    assert codes(told, policy_of(ours, *other), host, datetime.now(UTC)) == ["AOTC-E119"]


def elsewhere_named(here: Authority, number: int) -> TimestampAuthority:
    """Certificates that are somebody's, and not the authority's."""
    return TimestampAuthority(name=str(number), certificates=_STRANGER)


@pytest.fixture(scope="module", autouse=True)
def _stranger(elsewhere: Authority) -> None:
    global _STRANGER
    _STRANGER = elsewhere.root


_STRANGER = ""


def test_a_timestamp_of_a_time_that_there_is_not_is_refused(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    def told(envelope: bytes) -> bytes:
        good = base64.b64decode(timestamp_in(stamped(envelope, here)))
        at = re.search(rb"\x18\x0f(20[0-9]{12}Z)", good)
        assert at is not None
        made = good[: at.start(1)] + b"0000" + good[at.start(1) + 4 :]
        return with_timestamp(envelope, base64.b64encode(made).decode())

    policy = policy_of(ours, here.trusted())
    assert codes(sign(told), policy, host, datetime.now(UTC)) == ["AOTC-E324"]


def test_a_package_that_panics_has_shown_nothing(
    sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    """Of a certificate whose issuer is no text, which cryptography reads and OpenSSL does not."""
    der = x509.load_pem_x509_certificate(here.root.encode()).public_bytes(Encoding.DER)
    assert der.count(b"\x0c\x04root") == 2
    odd = base64.encodebytes(der.replace(b"\x0c\x04root", b"\x0c\x04\xff\xff\xff\xff")).decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{odd}-----END CERTIFICATE-----\n"
    told = sign(lambda envelope: stamped(envelope, here))
    policy = policy_of(ours, TimestampAuthority(certificates=pem))
    assert codes(told, policy, host, datetime.now(UTC)) == []
    assert (
        codes(
            told,
            policy_of(ours, TimestampAuthority(certificates=pem), here.trusted()),
            host,
            datetime.now(UTC),
        )
        == []
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_what_ends_a_process_is_no_reason(error: BaseException) -> None:
    with pytest.raises(type(error)):
        reason_of(error)
    assert reason_of(ValueError()) == "ValueError" and reason_of(ValueError("a\nb")) == "a"
    assert reason_of(ValueError("x" * 201)) == "x" * 200


@pytest.mark.parametrize(
    "pem", ["x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
)
def test_an_authority_without_certificates_is_refused(
    pem: str, sign: Sign, ours: LocalSigner, host: HostFacts, here: Authority
) -> None:
    told = sign(lambda envelope: stamped(envelope, here))
    policy = policy_of(ours, TimestampAuthority(certificates=pem))
    assert codes(told, policy, host, datetime.now(UTC)) == ["AOTC-E309"]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ("", [("AOTC-E309", "neither")]),
        ('certificates = "x"\ncertificates_file = "x"\n', [("AOTC-E309", "both")]),
        ('certificates_file = "missing.pem"\n', [("AOTC-E308", "No such file or directory")]),
    ],
)
def test_a_policy_says_once_what_is_wrong_with_the_files_that_it_names(
    fields: str, found: list[tuple[str, str]], ours: LocalSigner, tmp_path: Path
) -> None:
    path = written(tmp_path, ours, None)
    path.write_text(path.read_text() + "[[timestamp_authorities]]\n" + fields)
    with pytest.raises(AotcError) as raised:
        trust.policy_keys(trust.read_policy(path), "policy")
    assert [(each.code, each.found) for each in raised.value.findings] == found


@pytest.mark.parametrize("fields", [{}, {"certificates": "x", "certificates_file": "x"}])
def test_an_authority_states_its_certificates_once(
    fields: dict[str, str], sign: Sign, ours: LocalSigner, host: HostFacts
) -> None:
    policy = policy_of(ours, TimestampAuthority(**fields))
    assert codes(sign(), policy, host, datetime.now(UTC)) == ["AOTC-E309"]


def test_a_policy_that_asks_is_refused_where_nothing_can_verify_timestamps(
    sign: Sign,
    ours: LocalSigner,
    host: HostFacts,
    here: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = sign(lambda envelope: stamped(envelope, here))
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    now = datetime.now(UTC)
    assert codes(told, policy_of(ours, here.trusted()), host, now) == ["AOTC-E325"]
    assert codes(told, policy_of(ours), host, now) == []
    assert codes(sign(), policy_of(ours, here.trusted()), host, now) == []


def test_sign_has_all_signatures_of_its_key_timestamped_and_no_others(
    digits_bundle: tuple[Path, Path], tmp_path: Path, here: Authority, host: HostFacts
) -> None:
    bundle = Path(shutil.copyfile(digits_bundle[0], tmp_path / "b.aotb"))
    signer, other = LocalSigner.ephemeral(), LocalSigner.ephemeral()
    endorse(bundle, other)
    endorse(bundle, signer)
    assert not endorse(bundle, signer, timestamp=partial(timestamped, here.command)).added
    found = [json.loads(each)["signatures"][0] for each in take_apart(in_memory(bundle)).envelopes]
    assert [("timestamp" in each, each["keyid"]) for each in found if "timestamp" in each] == [
        (True, signer.key_id)
    ]
    data = bundle.read_bytes()
    endorse(bundle, signer, timestamp=partial(timestamped, "false"))
    assert bundle.read_bytes() == data
    assert endorse(
        bundle, LocalSigner.ephemeral(), timestamp=partial(timestamped, here.command)
    ).added


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("false", "exit code 1"),
        ("cat", "an answer that is no timestamp"),
        ("no-such-command-here", "No such file"),
        (r"printf '\060\005\060\003\002\001\002'", "status 2: "),
        ('"', "No closing quotation"),
        ("http://127.0.0.1:9/", "refused"),
        ("http://[", "Invalid"),
    ],
)
def test_an_authority_that_gives_no_timestamp_leaves_the_bundle_as_it_is(
    asked: str, said: str, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    bundle = Path(shutil.copyfile(digits_bundle[0], tmp_path / "b.aotb"))
    before = bundle.read_bytes()
    with pytest.raises(UsageError) as refused:
        endorse(bundle, LocalSigner.ephemeral(), timestamp=partial(timestamped, asked))
    (found,) = refused.value.findings
    assert found.code == "AOTC-E026" and said in found.found
    assert bundle.read_bytes() == before


def dripping(request: BaseHTTPRequestHandler) -> None:
    try:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            request.wfile.write(b"x")
            time.sleep(0.05)
    except OSError:
        pass


def test_an_authority_that_never_ends_its_answer_is_given_up(
    digits_bundle: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from .channels import serving

    monkeypatch.setattr(timestamp_client, "SECONDS", 1)
    bundle = Path(shutil.copyfile(digits_bundle[0], tmp_path / "b.aotb"))
    with serving(dripping) as url, pytest.raises(UsageError) as refused:
        endorse(bundle, LocalSigner.ephemeral(), timestamp=partial(timestamped, url))
    (found,) = refused.value.findings
    assert (found.code, found.found) == ("AOTC-E026", "no whole response in time")


def asked(command: str, message: bytes = b"x") -> str:
    """What comes of asking for a timestamp of a signature: why it is refused, or nothing."""
    signature = {"sig": base64.b64encode(message).decode(), "keyid": "ours"}
    envelope = json.dumps({"payload": "", "payloadType": "", "signatures": [signature]}).encode()
    try:
        timestamped(command, envelope, "ours")
    except UsageError as refused:
        (found,) = refused.findings
        assert found.code == "AOTC-E026"
        return found.found
    return ""


def test_an_answer_to_another_question_is_refused(here: Authority, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(base64.b64decode(answer_to(b"x", here)))
    # The question about x, asked about y.
    x, y = (hashlib.sha256(each).hexdigest() for each in (b"x", b"y"))
    swap = (
        "import subprocess, sys; q = sys.stdin.buffer.read(); "
        f"q = q.replace(bytes.fromhex('{x}'), bytes.fromhex('{y}')); "
        f"subprocess.run({here.command.split()}, input=q)"
    )
    assert asked(here.command) == ""
    for command in (f"cat {tmp_path}/old", shlex.join([sys.executable, "-c", swap])):
        assert asked(command) == "an answer to another question"


LONGER = """
import subprocess, sys
answer = subprocess.run(sys.argv[2:], input=sys.stdin.buffer.read(), stdout=-1).stdout
token = answer[4 + 2 + answer[5] :]
def der(tag, value):
    return bytes([tag, 0x82]) + len(value).to_bytes(2, "big") + value
text = b"x" * (int(sys.argv[1]) - len(token) - 4 - 4 - 3 - 4 - 4)
sys.stdout.buffer.write(der(0x30, der(0x30, b"\\2\\1\\0" + der(0x30, der(0x0C, text))) + token))
"""
"""Makes an answer as long as it is told to, by words about its status."""


def test_an_answer_that_readers_would_not_take_is_refused(here: Authority) -> None:
    most = limits.TIMESTAMP_CHARACTERS_MAX // 4 * 3
    for size, refused in ((most, ""), (most + 1, f"{most + 1} bytes, more than readers take")):
        longer = shlex.join([sys.executable, "-c", LONGER, str(size)])
        assert asked(f"{longer} {here.command}") == refused


def test_an_envelope_to_which_nothing_is_to_be_added_keeps_its_bytes() -> None:
    envelope = b'{ "signatures": [{"sig": "AA==", "keyid": "theirs"}] }'
    assert timestamped("false", envelope, "ours") is envelope


def test_without_its_package_no_authority_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    assert "rfc3161_client" in asked("cat")


def test_nothing_of_it_is_imported_before_a_policy_asks(
    digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    probe = (
        "import sys, aotc_runtime\n"
        "aotc_runtime.load(sys.argv[1], trust=sys.argv[2]).close()\n"
        "assert 'rfc3161_client' not in sys.modules\n"
        "assert 'aotc_runtime.verification.signature_timestamps' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", probe, *map(str, digits_bundle)], check=True)


def test_older_readers_take_an_envelope_with_a_timestamp_as_one_without() -> None:
    """DSSE has readers ignore fields that they do not know; ours is only there where it says so."""
    from aotc_runtime.formats.in_toto import Signature

    assert msgspec.json.encode(Signature(sig="AA==", keyid="x")) == b'{"sig":"AA==","keyid":"x"}'


def granted_with_changes(envelope: bytes, here: Authority) -> bytes:
    """The status of the answer, which nobody signs, says that it is not quite what was asked."""
    made = bytearray(base64.b64decode(timestamp_in(stamped(envelope, here))))
    at = made.index(b"\x02\x01\x00") + 2
    made[at] = 1
    return with_timestamp(envelope, base64.b64encode(made).decode())


@pytest.mark.parametrize(
    "attack", ["another", "future", "elsewhere", "changes", "authority", "certificates"]
)
def test_an_attack_is_refused(
    attack: str,
    sign: Sign,
    ours: LocalSigner,
    host: HostFacts,
    here: Authority,
    elsewhere: Authority,
) -> None:
    now = datetime.now(UTC)
    told = sign(
        {
            "another": lambda envelope: with_timestamp(envelope, answer_to(b"x", here)),
            "elsewhere": lambda envelope: stamped(envelope, elsewhere),
            "changes": lambda envelope: granted_with_changes(envelope, here),
            "authority": lambda envelope: envelope,
            "certificates": lambda envelope: envelope,
        }.get(attack, lambda envelope: stamped(envelope, here))
    )
    none = {"authority": TimestampAuthority(), "certificates": TimestampAuthority(certificates="x")}
    by = none.get(attack, here.trusted())
    window = {} if attack in ("future", *none) else {"not_after": now + DAY}
    policy = policy_of(ours, by, **window)
    when = now - DAY if attack == "future" else now + 2 * DAY
    refused = "AOTC-E311" if attack == "elsewhere" else "AOTC-E324"
    refused = "AOTC-E309" if attack in none else refused
    assert codes(told, policy, host, when) == [refused]
