"""Signatures without a key of the policy: by Sigstore, from a trusted root, without a network."""

import base64
import json
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sigstore", reason="pip install 'aotc-runtime[sigstore]'")

from aotc.base.errors import UsageError
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.attach.sigstore_bundle import attach_sigstore
from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.in_toto import open_envelope
from aotc_runtime.schema.trust_policy import Identity, Revoked, TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from aotc_runtime.verification.public_keys import Trials
from aotc_runtime.verification.sigstore_identities import key_id, match_signatures
from aotc_serve.oci.sigstore_bundles import read_bundle

from .archives import on_disk
from .authorities import authority
from .doors import READY, Capture, at_every_door, toolchain
from .identities import IDENTITY, ISSUER, Sigstore, b64, digest_of, new
from .provenances import ENDORSEMENT, a_build, key_of
from .tampering import MemoryBundle, put_together, root_digest, statement_about, to_json
from .workbench import Workbench

Change = Callable[[dict[str, Any]], object]

ELSEWHERE = "https://else.example.org"
WARNING = {"predicateType": "https://example.org/warning/v1"}
NOT_THIS = {"subject": [{"name": "x", "digest": {"sha256": "0" * 64}}]}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked: the network is not there."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def here() -> Sigstore:
    return Sigstore()


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Sigstore:
    """With a log of version 2, which states no time, and an authority that does."""
    return Sigstore(timestamps=authority(tmp_path_factory.mktemp("tsa") / "here"))


def statement(root: str, **other: Any) -> bytes:
    made = {
        **statement_about(root),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": ENDORSEMENT,
    }
    return to_json({**made, **other})


def envelope_of(written: dict[str, Any]) -> bytes:
    """As `aotc attach` puts it into a bundle."""
    envelope = written["dsseEnvelope"]
    material = b64(json.dumps(written["verificationMaterial"]).encode())
    envelope["signatures"][0]["sigstore"] = material
    return to_json(envelope)


class Identifying(Workbench):
    """A bundle, about which an identity says something by Sigstore."""

    __slots__ = ()

    def statement(self, **other: Any) -> bytes:
        """A statement about the bundle, or another one."""
        return statement(root_digest(self.documents), **other)

    def carrying(self, *written: dict[str, Any]) -> MemoryBundle:
        """The bundle with these Sigstore bundles."""
        self.documents.envelopes = [envelope_of(each) for each in written]
        return put_together(self.documents)

    def respelled(self, change: Change) -> MemoryBundle:
        """The bundle as it is, the first signature changed."""
        document = json.loads(self.documents.envelopes[0])
        change(document["signatures"][0])
        self.documents.envelopes = [to_json(document)]
        return put_together(self.documents)

    def identified(self, here: Sigstore, **other: Any) -> MemoryBundle:
        """The bundle with a good statement by the identity."""
        return self.carrying(here.signed(self.statement(**other)))

    def codes_by(self, bundle: MemoryBundle, *by: Identity, **stated: Any) -> list[str]:
        """The codes of the findings for a policy of these identities, as of now."""
        return self.codes(bundle, naming(*by, **stated), datetime.now(UTC))


@pytest.fixture
def bench(bench: Workbench) -> Identifying:
    return Identifying(bench.documents, bench.ours, bench.stranger, bench.third, bench.host)


def trusting(here: Sigstore, **stated: Any) -> Identity:
    given = {"issuer": ISSUER, "identity": IDENTITY, "trusted_root": here.trusted_root()}
    return Identity(**{**given, **stated})


def naming(*identities: Identity, **stated: Any) -> TrustPolicy:
    return TrustPolicy(schema=1, name="digits", identities=identities, **stated)


@pytest.mark.parametrize("made", ["here", "newer"])
def test_identity_is_accepted_without_any_key(
    made: str, bench: Identifying, request: pytest.FixtureRequest
) -> None:
    by: Sigstore = request.getfixturevalue(made)
    identity, now = trusting(by), datetime.now(UTC).timestamp()
    found = verify(bench.identified(by), naming(identity), bench.host, now)
    assert found.signers == (key_id(identity),)


@pytest.mark.parametrize(
    "stated", [{"identity": f"{IDENTITY}x"}, {"identity": IDENTITY[:-1]}, {"issuer": f"{ISSUER}x"}]
)
def test_other_identity_fails(stated: dict[str, str], bench: Identifying, here: Sigstore) -> None:
    policy = naming(trusting(here, **stated))
    (found,) = bench.findings(bench.identified(here), policy, datetime.now(UTC))
    assert found.code == "AOTC-E302" and "Sigstore's material (" in found.found


SERVICES = ("authority", "certificates", "log")


@pytest.mark.parametrize(
    ("made", "part"),
    [*[(made, part) for made in ("here", "newer") for part in SERVICES], ("newer", "timestamps")],
)
def test_every_service_must_have_signed(
    made: str, part: str, bench: Identifying, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    genuine: Sigstore = request.getfixturevalue(made)
    other = authority(tmp_path / "other") if part == "timestamps" else new()
    forged = replace(genuine, **{part: other})
    signed = bench.identified(forged)
    assert bench.codes_by(signed, trusting(genuine)) == ["AOTC-E302"]
    assert bench.codes_by(signed, trusting(forged)) == []


def entry(written: dict[str, Any]) -> dict[str, Any]:
    (found,) = written["verificationMaterial"]["tlogEntries"]
    return found


def proof(written: dict[str, Any]) -> dict[str, Any]:
    return entry(written)["inclusionProof"]


def unstamped(written: dict[str, Any], **other: Any) -> None:
    del written["verificationMaterial"]["timestampVerificationData"]
    entry(written).update(integratedTime=str(int(datetime.now(UTC).timestamp())), **other)


def changed_path(change: Callable[[list[str]], list[str]]) -> Change:
    return lambda w: proof(w).update(hashes=change(proof(w)["hashes"]))


def with_checkpoint(old: str, new: str) -> Change:
    def change(written: dict[str, Any]) -> None:
        checkpoint = proof(written)["checkpoint"]
        assert old in checkpoint["envelope"]
        checkpoint["envelope"] = checkpoint["envelope"].replace(old, new)

    return change


def another_root(written: dict[str, Any]) -> None:
    with_checkpoint(proof(written)["rootHash"], b64(bytes(32)))(written)
    proof(written)["rootHash"] = b64(bytes(32))


PROMISE = {"signedEntryTimestamp": b64(bytes(64))}
FLAWS: dict[int, dict[str, Change]] = {
    1: {
        "late": lambda w: entry(w).update(integratedTime="2000000000"),
        "no log": lambda w: w["verificationMaterial"].update(tlogEntries=[]),
        "no promise": lambda w: entry(w).pop("inclusionPromise"),
        "another tree": lambda w: proof(w).update(rootHash=b64(bytes(32))),
        "another log": lambda w: entry(w)["logId"].update(keyId=b64(bytes(32))),
        "nothing": lambda w: w.update(verificationMaterial={}),
        "a list": lambda w: w.update(verificationMaterial=[[]] * 5),
    },
    2: {
        "no timestamp": unstamped,
        "a time that nobody signed": lambda w: unstamped(w, inclusionPromise=PROMISE),
        "root": lambda w: proof(w).update(rootHash=b64(bytes(32))),
        "root and checkpoint": another_root,
        "short path": changed_path(lambda path: path[:-1]),
        "order of the path": changed_path(lambda path: path[::-1]),
        "long path": changed_path(lambda path: [*path, path[0]]),
        "index": lambda w: proof(w).update(logIndex="3"),
        "size": lambda w: proof(w).update(treeSize="3"),
        "no checkpoint": lambda w: proof(w).pop("checkpoint"),
        "size of checkpoint": with_checkpoint("\n5\n", "\n6\n"),
        "mark of the seal": with_checkpoint("\u2014", "-"),
        "no proof": lambda w: entry(w).pop("inclusionProof"),
        "log": lambda w: entry(w)["logId"].update(keyId=b64(bytes(32))),
        "version": lambda w: entry(w)["kindVersion"].update(version="0.0.1"),
        "kind": lambda w: entry(w).update(kindVersion={"kind": "dsse", "version": "0.0.1"}),
        "kind and version": lambda w: entry(w)["kindVersion"].update(kind="dsse"),
    },
}
"""Changes of a Sigstore bundle, by the version of Rekor; none of them may count."""


def test_entry_of_version_2_must_be_about_this_signature(
    bench: Identifying, newer: Sigstore
) -> None:
    """Statements of the log or the authority about another one are proven, but of no use."""
    written, second = newer.signed(bench.statement()), newer.signed(bench.statement())
    material = written["verificationMaterial"]

    def codes(payload: bytes, of_signature: dict[str, Any], of_certificate: Any) -> list[str]:
        signature = base64.b64decode(of_signature["dsseEnvelope"]["signatures"][0]["sig"])
        der = base64.b64decode(of_certificate["verificationMaterial"]["certificate"]["rawBytes"])
        material["tlogEntries"] = [newer.entry_v2(digest_of(payload), signature, der)]
        return bench.codes_by(bench.carrying(written), trusting(newer))

    assert codes(bench.statement(), written, written) == []
    assert codes(bench.statement(predicate={}), written, written) == ["AOTC-E302"]
    assert codes(bench.statement(), second, written) == ["AOTC-E302"]
    assert codes(bench.statement(), written, second) == ["AOTC-E302"]
    stamps = second["verificationMaterial"]["timestampVerificationData"]
    material["timestampVerificationData"] = stamps
    assert codes(bench.statement(), written, written) == ["AOTC-E302"]


def test_timestamp_after_the_certificate_had_ended_is_not_counted(
    bench: Identifying, newer: Sigstore
) -> None:
    earlier = replace(newer, now=newer.now - timedelta(minutes=11))
    assert bench.codes_by(bench.identified(earlier), trusting(newer)) == ["AOTC-E302"]


SUITE = Path(__file__).parent / "sigstore_conformance"
BEACON = (
    "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon"
    "/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main"
)


@pytest.mark.parametrize("path", sorted(SUITE.glob("rekor2-*.json")), ids=lambda path: path.stem)
def test_cases_of_the_conformance_suite(path: Path) -> None:
    signed = open_envelope(read_bundle(path.read_bytes(), path.name).envelope, path.name)
    by = Identity(
        issuer="https://token.actions.githubusercontent.com",
        identity=BEACON,
        trusted_root=(SUITE / "trusted_root.json").read_text("utf-8"),
    )
    (signature,) = signed.materials
    found = match_signatures(signed, signature, naming(by), set(), Trials())
    assert found == ([] if path.stem.endswith("_fail") else [(key_id(by), signature)])


@pytest.mark.parametrize(("minutes", "expected"), [(9, []), (11, ["AOTC-E302"])])
def test_a_signature_made_after_the_certificate_had_ended_is_not_counted(
    minutes: int, expected: list[str], bench: Identifying, here: Sigstore
) -> None:
    """The key of a certificate that is valid for ten minutes is of no use later."""
    key = new()
    certificate = here.certificate(key, IDENTITY, ISSUER)
    now = here.now + timedelta(minutes=minutes)
    later = Sigstore(now, here.authority, here.certificates, here.log)
    written = later.signed_with(key, certificate, bench.statement())
    assert bench.codes_by(bench.carrying(written), trusting(here)) == expected


@pytest.mark.parametrize("other", [NOT_THIS, WARNING])
def test_foreign_proof_fails(other: dict[str, Any], bench: Identifying, here: Sigstore) -> None:
    assert bench.codes_by(bench.identified(here, **other), trusting(here)) == ["AOTC-E305"]


def test_flipped_bit_of_material_shows_nothing_else(bench: Identifying, here: Sigstore) -> None:
    """Or the same: some of it is about nothing, such as white space."""
    bench.identified(here)
    first = json.loads(bench.documents.envelopes[0])["signatures"][0]
    material, identity = base64.b64decode(first["sigstore"]), trusting(here)
    for at in range(0, len(material), 41):
        bad = material[:at] + bytes([material[at] ^ (1 << at % 8)]) + material[at + 1 :]
        bundle = bench.respelled(lambda signature, bad=bad: signature.update(sigstore=b64(bad)))
        assert bench.codes_by(bundle, identity) in ([], ["AOTC-E302"]), at


def test_an_identity_counts_once_and_beside_keys(bench: Identifying, here: Sigstore) -> None:
    twice = bench.carrying(*[here.signed(bench.statement()) for _ in range(2)])
    identity, keys = trusting(here), (key_of(bench.ours),)
    assert bench.codes_by(twice, identity, keys=keys, threshold=2) == ["AOTC-E304"]
    bench.attested((bench.ours, ENDORSEMENT))
    bench.documents.envelopes.append(envelope_of(here.signed(bench.statement())))
    both = put_together(bench.documents)
    assert bench.codes_by(both, identity, keys=keys, threshold=2) == []
    assert bench.codes_by(both, identity, keys=keys, threshold=3) == ["AOTC-E309"]
    held, by = trusting(here, holder="ci"), key_of(bench.ours, holder="ci")
    assert bench.codes_by(both, held, keys=(by,), threshold=1) == []
    three = (by, key_of(LocalSigner.ephemeral(), holder="x"))
    assert bench.codes_by(both, held, keys=three, threshold=2) == ["AOTC-E304"]


def test_an_identity_may_be_revoked(bench: Identifying, here: Sigstore) -> None:
    signed, identity = bench.identified(here), trusting(here)
    since = {key_id(identity): datetime(2026, 1, 1, tzinfo=UTC)}
    for revoked in (Revoked(keys=(key_id(identity),)), Revoked(since=since)):
        assert bench.codes_by(signed, identity, revoked=revoked) == ["AOTC-E312"]


def test_an_identity_speaks_for_builders_as_a_key_does(bench: Identifying, here: Sigstore) -> None:
    signed = bench.identified(here, predicate=a_build(builder=ISSUER, finished=None, sources=()))
    assert bench.codes_by(signed, trusting(here, builders=(ISSUER,))) == []
    assert bench.codes_by(signed, trusting(here, builders=(ELSEWHERE,))) == ["AOTC-E323"]


POLICY = f"""schema = 1
name = "digits"
[[identities]]
issuer = "{ISSUER}"
identity = "{IDENTITY}"
"""
ROOT_FILE = 'trusted_root_file = "root.json"\n'


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_at_every_door_an_identity_is_enough_and_another_is_not(
    form: str, bench: Identifying, here: Sigstore, tmp_path: Path, capfd: Capture
) -> None:
    path, trust = on_disk(bench.identified(here), form, tmp_path), tmp_path / "trust.toml"
    root = tmp_path / "root.json"
    root.write_text(here.trusted_root(), "utf-8")
    text = POLICY + ROOT_FILE
    trust.write_text(text, "utf-8")
    assert at_every_door(path, trust, capfd) == [READY] * 3
    trust.write_text(text.replace("release", "pull"), "utf-8")
    assert at_every_door(path, trust, capfd) == [("AOTC-E302", 5)] * 3
    root.unlink()
    assert at_every_door(path, trust, capfd) == [("AOTC-E308", 5)] * 3
    trust.write_text(POLICY + 'more = "x"', "utf-8")
    assert at_every_door(path, trust, capfd) == [("AOTC-E309", 5)] * 3


@pytest.mark.parametrize(
    ("fields", "code", "found"),
    [
        ("", "AOTC-E309", "neither"),
        ('trusted_root = "{}"\ntrusted_root_file = "x"\n', "AOTC-E309", "both"),
        ('trusted_root_file = "missing"\n', "AOTC-E308", "No such file or directory"),
        ('trusted_root_file = "bytes"\n', "AOTC-E309", "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_policy_names_bad_trusted_roots(fields: str, code: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    path = tmp_path / "trust.toml"
    path.write_text(POLICY + fields)
    with pytest.raises(AotcError) as raised:
        policy_keys(read_policy(path), "policy")
    assert code in [each.code for each in raised.value.findings]
    assert any(each.found.startswith(found) for each in raised.value.findings)
    assert {each.code for each in raised.value.findings} <= {code, "AOTC-E309"}


@pytest.mark.parametrize(("more", "expected"), [(0, []), (4, ["AOTC-E111"])])
def test_material_limit(more: int, expected: list[str], bench: Identifying, here: Sigstore) -> None:
    written = here.signed(bench.statement())
    plain = json.dumps(written["verificationMaterial"]).encode()
    size = (limits.MATERIAL_CHARACTERS_MAX + more) // 4 * 3
    material = b64(plain + b" " * (size - len(plain)))
    assert len(material) == limits.MATERIAL_CHARACTERS_MAX + more
    bench.carrying(written)
    bundle = bench.respelled(lambda signature: signature.update(sigstore=material))
    assert bench.codes_by(bundle, trusting(here)) == expected


@pytest.mark.parametrize("root", ["", "{}", "x", '{"mediaType": "x"}'])
def test_invalid_trusted_root_is_rejected(root: str, bench: Identifying, here: Sigstore) -> None:
    by = trusting(here, trusted_root=root)
    assert bench.codes_by(bench.identified(here), by) == ["AOTC-E309"]


def test_repeated_identities_and_empty_policies_refused(bench: Identifying, here: Sigstore) -> None:
    signed = bench.identified(here)
    assert bench.codes_by(signed, trusting(here), trusting(here)) == ["AOTC-E309"]
    (nobody,) = bench.findings(signed, naming(), datetime.now(UTC))
    assert (nobody.code, nobody.where) == ("AOTC-E309", "trust policy keys")


def test_asking_identities_is_bounded(bench: Identifying, here: Sigstore) -> None:
    many = [trusting(here, identity=f"https://{number}") for number in range(70)]
    assert bench.codes_by(bench.identified(here), *many) == ["AOTC-E119"]
    large = bench.identified(here, predicate={**ENDORSEMENT, "more": "x" * 2**20})
    assert bench.codes_by(large, *many[:12], trusting(here)) == []
    assert bench.codes_by(large, *many[:25]) == ["AOTC-E119"]


@pytest.mark.parametrize("more", ["x" * 2**16, [0] * limits.MATERIAL_MARKS_MAX])
def test_oversized_material_is_refused_early(more: Any, bench: Identifying, here: Sigstore) -> None:
    written = here.signed(bench.statement())
    written["verificationMaterial"]["more"] = more
    assert bench.codes_by(bench.carrying(written), trusting(here)) == ["AOTC-E111"]
    bundle = bench.respelled(lambda signature: signature.update(sigstore="AAA"))
    assert bench.codes_by(bundle, trusting(here)) == ["AOTC-E107"]


def test_no_sigstore(bench: Identifying, here: Sigstore, monkeypatch: pytest.MonkeyPatch) -> None:
    signed = bench.identified(here)
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    assert bench.codes_by(signed, trusting(here)) == ["AOTC-E334"]
    keys = bench.attested((bench.ours, ENDORSEMENT))
    assert bench.codes_by(keys, trusting(here), keys=(key_of(bench.ours),)) == []


def with_material(written: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {**written, "verificationMaterial": {**written["verificationMaterial"], **other}}


@pytest.mark.parametrize(
    "made",
    [
        lambda h, data: Sigstore(h.now, new(), h.certificates, h.log).signed(data),
        lambda h, data: h.signed(data, identity=ELSEWHERE),
        lambda h, data: h.signed(data, issuer=ELSEWHERE),
        lambda h, data: with_material(h.signed(data), **h.signed(b"{}")["verificationMaterial"]),
        lambda h, data: with_material(h.signed(data), tlogEntries=[{}, {}]),
        lambda h, data: with_material(h.signed(data), certificate=None),
    ],
    ids=["authority", "identity", "issuer", "signature", "two entries", "no certificate"],
)
def test_sigstores_library_is_not_asked_about_what_cannot_be_the_identitys(
    made: Callable[[Sigstore, bytes], dict[str, Any]],
    bench: Identifying,
    here: Sigstore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes a second and 60 MB to be imported, which nobody may cost a host who can add junk."""
    signed = bench.carrying(made(here, bench.statement()))
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    assert bench.codes_by(signed, trusting(here)) == ["AOTC-E302"]


# `aotc attach`.


@pytest.fixture
def bundle(digits_bundle: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copyfile(digits_bundle[0], tmp_path / "b.aotb"))


def about(bundle: Path, **other: Any) -> bytes:
    return statement(read_root(open_bundle(bundle)).entry.digest, **other)


def test_attached_is_counted(bundle: Path, here: Sigstore, tmp_path: Path, capfd: Capture) -> None:
    file, trust = tmp_path / "b.sigstore.json", tmp_path / "trust.toml"
    file.write_text(json.dumps(here.signed(about(bundle))), "utf-8")
    (tmp_path / "root.json").write_text(here.trusted_root(), "utf-8")
    trust.write_text(POLICY + ROOT_FILE, "utf-8")
    assert at_every_door(bundle, trust, capfd) == [("AOTC-E302", 5)] * 3
    assert toolchain(["attach", str(bundle), str(file)]) == 0
    capfd.readouterr()
    assert at_every_door(bundle, trust, capfd) == [READY] * 3


def broken_payload(written: dict[str, Any]) -> None:
    """With this a policy would refuse the bundle, whoever else has signed it."""
    payload = written["dsseEnvelope"]["payload"]
    written["dsseEnvelope"]["payload"] = payload[:4] + "\n" + payload[4:]


@pytest.mark.parametrize(
    ("other", "change"),
    [
        ({}, lambda w: w.update(mediaType="application/json")),
        ({}, lambda w: w.pop("verificationMaterial")),
        ({}, lambda w: w["dsseEnvelope"].update(signatures=[])),
        ({}, lambda w: w["dsseEnvelope"].update(payload="AAAA")),
        ({}, lambda w: w["dsseEnvelope"].update(payloadType="text/plain")),
        ({}, broken_payload),
        ({}, lambda w: w["dsseEnvelope"]["signatures"][0].update(sig="A")),
        (NOT_THIS, lambda w: None),
        (WARNING, lambda w: None),
    ],
)
def test_what_is_no_sigstore_bundle_or_about_something_else_is_not_attached(
    other: dict[str, Any], change: Change, bundle: Path, here: Sigstore, tmp_path: Path
) -> None:
    written = here.signed(about(bundle, **other))
    change(written)
    refused_to_attach(bundle, tmp_path, json.dumps(written))


def test_material_up_to_limit_is_attached(bundle: Path, here: Sigstore, tmp_path: Path) -> None:
    written = here.signed(about(bundle))
    material = written["verificationMaterial"] | {"more": ""}
    most = limits.MATERIAL_CHARACTERS_MAX // 4 * 3
    material["more"] = "x" * (most - len(json.dumps(material)))
    text = json.dumps(written | {"verificationMaterial": material})
    (tmp_path / "x.json").write_text(text, "utf-8")
    attach_sigstore(bundle, tmp_path / "x.json")
    material["more"] += "x"
    refused_to_attach(bundle, tmp_path, json.dumps(written | {"verificationMaterial": material}))


def test_what_cannot_be_read_is_not_attached(bundle: Path, tmp_path: Path) -> None:
    refused_to_attach(bundle, tmp_path, "[]")
    with pytest.raises(UsageError, match="AOTC-E029"):
        attach_sigstore(bundle, tmp_path / "nowhere")


def refused_to_attach(bundle: Path, folder: Path, text: str) -> None:
    before = bundle.read_bytes()
    (folder / "x.json").write_text(text, "utf-8")
    with pytest.raises(UsageError, match="AOTC-E029"):
        attach_sigstore(bundle, folder / "x.json")
    assert bundle.read_bytes() == before
