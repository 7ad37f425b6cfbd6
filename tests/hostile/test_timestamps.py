"""Time of a signature, by a timestamp of one of the policy's authorities and nothing else."""

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
from aotc.commands.timestamp.timestamp_client import add_timestamps
from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.rendering import reason_of
from aotc_runtime.formats.in_toto import Signature
from aotc_runtime.schema.trust_policy import Revoked, TimestampAuthority, TrustPolicy
from aotc_runtime.verification import signature_timestamps
from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from aotc_runtime.verification.public_keys import Trials
from tests.conftest import Bundle

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
from .provenances import DAY, ENDORSEMENT, key_of
from .tampering import MemoryBundle, in_memory, put_together, take_apart
from .workbench import Workbench

pytest.importorskip("rfc3161_client", reason="pip install 'aotc-runtime[timestamps]'")
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is the authority")

SECOND = timedelta(seconds=1)

Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority") / "here")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that no policy names, although its certificates are named alike."""
    return authority(tmp_path_factory.mktemp("authority") / "elsewhere")


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


class Stamping(Workbench):
    """A bundle that `ours` signed, and policies with authorities."""

    __slots__ = ()

    def signed_and(self, change: Change = lambda envelope: envelope) -> MemoryBundle:
        """The bundle with its envelope changed."""
        self.attested((self.ours, ENDORSEMENT))
        self.documents.envelopes = [change(self.documents.envelopes[0])]
        return put_together(self.documents)

    def stamped(self, by: Authority) -> MemoryBundle:
        """The bundle with a timestamp beside its signature."""
        return self.signed_and(lambda envelope: stamped(envelope, by))

    def trusting(self, *by: TimestampAuthority, **stated: Any) -> TrustPolicy:
        """A policy with these authorities. stated: of the key, and what is revoked."""
        revoked = stated.pop("revoked", Revoked())
        key = key_of(self.ours, **stated)
        return self.policy(key, timestamp_authorities=by, revoked=revoked)


@pytest.fixture
def bench(bench: Workbench) -> Stamping:
    return Stamping(bench.documents, bench.ours, bench.stranger, bench.third, bench.host)


def signature_of(envelope: bytes) -> bytes:
    return base64.b64decode(json.loads(envelope)["signatures"][0]["sig"])


def test_timestamp_outlives_key(bench: Stamping, here: Authority, now: datetime) -> None:
    window, later = {"not_before": now - DAY, "not_after": now + DAY}, now + 365 * DAY
    policy = bench.trusting(here.trusted(), **window)
    assert bench.codes(bench.stamped(here), policy, later) == []
    assert bench.codes(bench.stamped(here), bench.trusting(**window), later) == ["AOTC-E311"]
    assert bench.codes(bench.signed_and(), policy, later) == ["AOTC-E311"]
    assert bench.codes(bench.signed_and(), policy, now) == []


def test_window_is_asked_for_signing_time(bench: Stamping, here: Authority, now: datetime) -> None:
    told = bench.stamped(here)
    for window in ({"not_before": now + DAY}, {"not_after": now - DAY}):
        policy = bench.trusting(here.trusted(), **window)
        (found,) = bench.findings(told, policy, now + 2 * DAY)
        assert (found.code, found.found[:10]) == ("AOTC-E311", "signed at ")


def test_a_revocation_may_have_a_date(bench: Stamping, here: Authority, now: datetime) -> None:
    key, later = bench.ours.key_id, now + 2 * DAY
    before, after = ({key: now + offset} for offset in (DAY, -DAY))

    def revoked(**stated: Any) -> TrustPolicy:
        return bench.trusting(here.trusted(), revoked=Revoked(**stated))

    told = bench.stamped(here)
    assert bench.codes(told, revoked(since=before), later) == []
    assert bench.codes(told, revoked(since=after), later) == ["AOTC-E312"]
    assert bench.codes(told, revoked(since=before, keys=(key,)), later) == ["AOTC-E312"]
    silent = bench.signed_and()
    (found,) = bench.findings(silent, revoked(since=before), later)
    assert found.code == "AOTC-E312" and "revoked.since, checked at " in found.found
    assert bench.codes(silent, revoked(since=before), now) == []


BROKEN: dict[str, Callable[[Authority], Change]] = {
    "of another signature": lambda here: (
        lambda envelope: with_timestamp(envelope, answer_to(b"another signature", here))
    ),
    "of what was signed": lambda here: (
        lambda envelope: with_timestamp(
            envelope, answer_to(base64.b64decode(json.loads(envelope)["payload"]), here)
        )
    ),
    "cut": lambda here: (
        lambda envelope: with_timestamp(
            envelope, changed_timestamp(envelope, here, lambda made: made[:-9])
        )
    ),
    "a refusal": lambda here: lambda envelope: with_timestamp(envelope, asked(here, b"no query")),
    "no timestamp": lambda here: lambda envelope: with_timestamp(envelope, "AAAA"),
    # The status of the answer, which nobody signs, says that it is not quite what was asked.
    "granted with changes": lambda here: (
        lambda envelope: with_timestamp(
            envelope,
            changed_timestamp(envelope, here, lambda made: made.replace(b"\2\1\0", b"\2\1\1", 1)),
        )
    ),
    "of a time that there is not": lambda here: (
        lambda envelope: with_timestamp(
            envelope,
            changed_timestamp(
                envelope,
                here,
                lambda made: re.sub(rb"(\x18\x0f20[0-9]{2})[0-9]{4}", rb"\g<1>0000", made, count=1),
            ),
        )
    ),
}


def changed_timestamp(envelope: bytes, here: Authority, change: Change) -> str:
    made = base64.b64decode(timestamp_in(stamped(envelope, here)))
    return base64.b64encode(change(made)).decode()


def asked(here: Authority, query: bytes) -> str:
    """An authority's answer, in base64."""
    done = subprocess.run(here.command.split(), input=query, capture_output=True, check=True)
    return base64.b64encode(done.stdout).decode()


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("form", ["archive", "folder"])
def test_a_timestamp_of_something_else_refuses_the_bundle_at_every_door(
    how: str, form: str, bench: Stamping, here: Authority, tmp_path: Path, capfd: Capture
) -> None:
    """Also while the key is valid: it is damaged or forged, like a signature that does not fit."""
    path = on_disk(bench.signed_and(BROKEN[how](here)), form, tmp_path)
    trust = written(tmp_path, bench.ours, here)
    assert at_every_door(path, trust, capfd) == [("AOTC-E324", 5)] * 3
    without = written(tmp_path, bench.ours, None)
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
    form: str, bench: Stamping, here: Authority, tmp_path: Path, capfd: Capture
) -> None:
    told = on_disk(bench.stamped(here), form, tmp_path)
    ended = datetime.now(UTC)
    while datetime.now(UTC) <= ended:
        time.sleep(0.01)
    trust = written(tmp_path, bench.ours, here, f"not_after = {ended.isoformat()}")
    assert at_every_door(told, trust, capfd) == [READY] * 3
    (tmp_path / "silent").mkdir()
    plain = on_disk(bench.signed_and(), form, tmp_path / "silent")
    assert at_every_door(plain, trust, capfd) == [("AOTC-E311", 5)] * 3


SPANS: dict[str, dict[str, tuple[int, int]]] = {
    "another authority": {},
    "a certificate that had expired": {"days": (-20, -10)},
    "a certificate that was not valid yet": {"days": (10, 20)},
    "a root that had expired": {"root_days": (-20, -1), "days": (-10, 10)},
}


@pytest.mark.parametrize("kind", SPANS)
def test_a_timestamp_that_no_authority_vouches_for_says_nothing(
    kind: str, bench: Stamping, here: Authority, now: datetime, tmp_path: Path
) -> None:
    other = authority(tmp_path / "other", **SPANS[kind])
    trusted = other if SPANS[kind] else here
    policy = bench.trusting(trusted.trusted(), not_after=now + DAY)
    told = bench.stamped(other)
    assert bench.codes(told, policy, now) == []
    (found,) = bench.findings(told, policy, now + 2 * DAY)
    assert found.code == "AOTC-E311" and found.found.startswith("checked at ")
    assert "; timestamp by no authority of the policy (here: " in found.found


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
    bench: Stamping,
    here: Authority,
    now: datetime,
) -> None:
    """An authority's root may be a company's, which signs the certificates of its servers."""

    def told(envelope: bytes) -> bytes:
        made = by_hand(signature_of(envelope), here, purposes, critical)
        return with_timestamp(envelope, made)

    policy = bench.trusting(here.trusted(), not_after=now + DAY)
    expected = [] if counts else ["AOTC-E311"]
    assert bench.codes(bench.signed_and(told), policy, now + 2 * DAY) == expected


def test_one_authority_of_several_is_enough_and_asking_them_is_bounded(
    bench: Stamping, here: Authority, elsewhere: Authority, now: datetime
) -> None:
    told, later = bench.stamped(here), now + 2 * DAY
    both = (elsewhere.trusted("elsewhere"), here.trusted())
    assert bench.codes(told, bench.trusting(*both, not_after=now + DAY), later) == []
    for by, expected in ((here, []), (elsewhere, ["AOTC-E119"])):
        many = [by.trusted(str(number)) for number in range(300)]
        assert bench.codes(told, bench.trusting(*many), now) == expected


@pytest.mark.parametrize(("early", "expected"), [(299, []), (300, []), (302, ["AOTC-E324"])])
def test_future_is_wrong(early: int, expected: list[str], bench: Stamping, here: Authority) -> None:
    told = bench.stamped(here)
    made = moment_in(base64.b64decode(timestamp_in(take_apart(told).envelopes[0])))
    assert bench.codes(told, bench.trusting(here.trusted()), made - early * SECOND) == expected


def moment_in(timestamp: bytes) -> datetime:
    return signature_timestamps._decode(timestamp, "x").tst_info.gen_time


@pytest.mark.parametrize(
    ("digest", "expected"),
    [("sha384", []), ("sha512", []), ("sha1", ["AOTC-E324"]), ("sha224", ["AOTC-E324"])],
)
def test_a_timestamp_is_of_a_hash_that_nobody_can_forge(
    digest: str,
    expected: list[str],
    bench: Stamping,
    here: Authority,
    now: datetime,
    tmp_path: Path,
) -> None:
    def of_the_signature(envelope: bytes) -> bytes:
        (tmp_path / "signature").write_bytes(signature_of(envelope))
        query = f"openssl ts -query -cert -{digest} -data {tmp_path}/signature".split()
        made = subprocess.run(query, capture_output=True, check=True).stdout
        return with_timestamp(envelope, asked(here, made))

    told = bench.signed_and(of_the_signature)
    policy = bench.trusting(here.trusted(), not_after=now + DAY)
    assert bench.codes(told, policy, now if expected else now + 2 * DAY) == expected


def test_flipped_bit_says_nothing(bench: Stamping, here: Authority, now: datetime) -> None:
    """Or the same: some bits of an answer are about nothing, such as its status text."""
    policy = bench.trusting(here.trusted(), not_before=now - DAY, not_after=now + DAY)
    envelope = take_apart(bench.stamped(here)).envelopes[0]
    good = base64.b64decode(timestamp_in(envelope))
    made, signature = moment_in(good).timestamp(), signature_of(envelope)
    for at in range(0, len(good), 3):
        bad = good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :]
        text = base64.b64encode(bad).decode()
        try:
            found = signature_timestamps.signing_time_of(
                text, signature, policy, Trials(), "x", now.timestamp()
            )
        except AotcError as error:
            assert error.code == "AOTC-E324"
        else:
            assert not found.stamped or found.at == made, at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A" * (limits.TIMESTAMP_CHARACTERS_MAX + 4), "AOTC-E111"),
        ("A" * limits.TIMESTAMP_CHARACTERS_MAX, "AOTC-E324"),
        ("AAA", "AOTC-E107"),
    ],
    ids=["too long", "the longest", "no base64"],
)
def test_a_timestamp_beyond_its_limit_is_refused(
    text: str, expected: str, bench: Stamping, here: Authority, now: datetime
) -> None:
    told = bench.signed_and(lambda envelope: with_timestamp(envelope, text))
    assert bench.codes(told, bench.trusting(here.trusted()), now) == [expected]


def test_panicking_package_shows_nothing(bench: Stamping, here: Authority, now: datetime) -> None:
    """Of a certificate whose issuer is no text, which cryptography reads and OpenSSL does not."""
    der = x509.load_pem_x509_certificate(here.root.encode()).public_bytes(Encoding.DER)
    assert der.count(b"\x0c\x04root") == 2
    odd = base64.encodebytes(der.replace(b"\x0c\x04root", b"\x0c\x04\xff\xff\xff\xff")).decode()
    by = TimestampAuthority(
        certificates=f"-----BEGIN CERTIFICATE-----\n{odd}-----END CERTIFICATE-----\n"
    )
    told = bench.stamped(here)
    assert bench.codes(told, bench.trusting(by), now) == []
    assert bench.codes(told, bench.trusting(by, here.trusted()), now) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_what_ends_a_process_is_no_reason(error: BaseException) -> None:
    with pytest.raises(type(error)):
        reason_of(error)
    assert reason_of(ValueError()) == "ValueError" and reason_of(ValueError("a\nb")) == "a"
    assert reason_of(ValueError("x" * 201)) == "x" * 200


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"certificates": "x", "certificates_file": "x"},
        {"certificates": "x"},
        {"certificates": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
    ],
)
def test_an_authority_states_its_certificates_once(
    fields: dict[str, str], bench: Stamping, here: Authority, now: datetime
) -> None:
    policy = bench.trusting(TimestampAuthority(**fields))
    assert bench.codes(bench.stamped(here), policy, now) == ["AOTC-E309"]


@pytest.mark.parametrize(
    ("fields", "code", "file", "found"),
    [
        ("", "AOTC-E309", "", "neither"),
        ('certificates = "x"\ncertificates_file = "x"\n', "AOTC-E309", "", "both"),
        ("certificates_file", "AOTC-E308", "gone.pem", "No such file or directory"),
        ("certificates_file", "AOTC-E309", "text.pem", "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_policy_says_once_what_is_wrong_with_the_files_that_it_names(
    fields: str, code: str, file: str, found: str, ours: LocalSigner, tmp_path: Path
) -> None:
    (tmp_path / "text.pem").write_bytes(b"\xff\xfe")
    path = written(tmp_path, ours, None)
    named = f'{fields} = "{file}"\n' if file else fields
    path.write_text(path.read_text() + '[[timestamp_authorities]]\nname = "tsa"\n' + named)
    with pytest.raises(AotcError) as raised:
        policy_keys(read_policy(path), "policy")
    (finding,) = raised.value.findings
    assert finding.code == code and finding.found.startswith(found)
    place = f"timestamp_authorities[0] tsa {tmp_path / file}" if file else "tsa"
    assert finding.where.endswith(place)


def test_a_policy_that_asks_is_refused_where_nothing_can_verify_timestamps(
    bench: Stamping, here: Authority, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, policy = bench.stamped(here), bench.trusting(here.trusted())
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    assert bench.codes(told, policy, now) == ["AOTC-E325"]
    assert bench.codes(told, bench.trusting(), now) == []
    assert bench.codes(bench.signed_and(), policy, now) == []
    assert "rfc3161_client" in refused_with("cat")


@pytest.fixture
def bundle(digits_bundle: Bundle, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(digits_bundle[0], tmp_path / "b.aotb"))


def test_sign_timestamps_only_signatures_of_its_key(bundle: Path, here: Authority) -> None:
    signer, other = LocalSigner.ephemeral(), LocalSigner.ephemeral()
    endorse(bundle, other)
    endorse(bundle, signer)
    assert not endorse(bundle, signer, timestamp=partial(add_timestamps, here.command)).added
    found = [json.loads(each)["signatures"][0] for each in take_apart(in_memory(bundle)).envelopes]
    assert [each["keyid"] for each in found if "timestamp" in each] == [signer.key_id]
    data = bundle.read_bytes()
    endorse(bundle, signer, timestamp=partial(add_timestamps, "false"))
    assert bundle.read_bytes() == data
    assert endorse(
        bundle, LocalSigner.ephemeral(), timestamp=partial(add_timestamps, here.command)
    ).added


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("false", "exit code 1"),
        ("cat", ""),
        ("no-such-command-here", "No such file"),
        (r"printf '\060\005\060\003\002\001\002'", "status 2: "),
        ('"', "No closing quotation"),
        ("http://127.0.0.1:9/", "refused"),
        ("http://[", "Invalid"),
    ],
)
def test_failing_authority_leaves_bundle(command: str, said: str, bundle: Path) -> None:
    before = bundle.read_bytes()
    with pytest.raises(UsageError) as refused:
        endorse(bundle, LocalSigner.ephemeral(), timestamp=partial(add_timestamps, command))
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


def test_endless_authority_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from .channels import serving  # needs python-tuf

    monkeypatch.setattr(timestamp_client, "SECONDS", 1)
    with serving(dripping) as url:
        assert refused_with(url) == "no whole response in time"


def refused_with(command: str) -> str:
    """Return what comes of asking for a timestamp of a signature: why it is refused, or nothing."""
    signature = {"sig": base64.b64encode(b"x").decode(), "keyid": "ours"}
    envelope = json.dumps({"payload": "", "payloadType": "", "signatures": [signature]}).encode()
    try:
        add_timestamps(command, envelope, "ours")
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
    assert refused_with(here.command) == ""
    for command in (f"cat {tmp_path}/old", shlex.join([sys.executable, "-c", swap])):
        assert refused_with(command) == "a timestamp of another query"


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
    for size, refused in ((most, ""), (most + 1, f"{most + 1} bytes, more than {most}")):
        longer = shlex.join([sys.executable, "-c", LONGER, str(size)])
        assert refused_with(f"{longer} {here.command}") == refused


def test_an_envelope_to_which_nothing_is_to_be_added_keeps_its_bytes() -> None:
    envelope = b'{ "signatures": [{"sig": "AA==", "keyid": "theirs"}] }'
    assert add_timestamps("false", envelope, "ours") is envelope


def test_older_readers_take_an_envelope_with_a_timestamp_as_one_without() -> None:
    """DSSE has readers ignore fields that they do not know; ours is only there where it says so."""
    assert msgspec.json.encode(Signature(sig="AA==", keyid="x")) == b'{"sig":"AA==","keyid":"x"}'
