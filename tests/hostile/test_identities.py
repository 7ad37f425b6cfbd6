"""Who signs without a key of the policy: by Sigstore, from a trusted root, and asking nobody."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sigstore", reason="pip install 'aotc-runtime[sigstore]'")

from aotc.base.errors import UsageError
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.attach.sigstore_bundle import attach_sigstore
from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import Identity, Revoked, TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification import sigstore_identities as identities
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from aotc_runtime.verification.sigstore_identities import key_id

from .archives import on_disk
from .doors import READY, Capture, at_every_door
from .identities import IDENTITY, ISSUER, Sigstore, b64, new
from .provenances import ENDORSEMENT, attested, key_of
from .tampering import Documents, MemoryBundle, put_together, root_digest, statement_about, to_json

Change = Callable[[dict[str, Any]], None]


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


def statement(documents: Documents, **other: Any) -> bytes:
    made = {
        **statement_about(root_digest(documents)),
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


def carrying(documents: Documents, *written: dict[str, Any]) -> MemoryBundle:
    documents.envelopes = [envelope_of(each) for each in written]
    return put_together(documents)


def trusting(here: Sigstore, **stated: Any) -> Identity:
    given = {"issuer": ISSUER, "identity": IDENTITY, "trusted_root": here.trusted_root()}
    return Identity(**{**given, **stated})


def policy_of(*identities: Identity, **stated: Any) -> TrustPolicy:
    return TrustPolicy(schema=1, name="digits", identities=identities, **stated)


def findings(bundle: MemoryBundle, policy: TrustPolicy, host: HostFacts) -> list[Finding]:
    try:
        verify(bundle, policy, host, datetime.now(UTC).timestamp())
    except AotcError as error:
        return list(error.findings)
    return []


def codes(*arguments: Any) -> list[str]:
    return [found.code for found in findings(*arguments)]


def test_an_identity_vouches_for_a_bundle_without_any_key(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    signed = carrying(documents, here.signed(statement(documents)))
    identity = trusting(here)
    assert codes(signed, policy_of(identity), host) == []
    found = verify(signed, policy_of(identity), host, datetime.now(UTC).timestamp())
    assert found.signers == (key_id(identity),)


@pytest.mark.parametrize(
    "stated",
    [{"identity": f"{IDENTITY}x"}, {"identity": IDENTITY[:-1]}, {"issuer": f"{ISSUER}x"}],
)
def test_another_identity_and_another_issuer_vouch_for_nothing(
    stated: dict[str, str], documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    signed = carrying(documents, here.signed(statement(documents)))
    (found,) = findings(signed, policy_of(trusting(here, **stated)), host)
    assert found.code == "AOTC-E302" and "Sigstore's material (" in found.found


def test_an_identity_that_another_issuer_knows_is_another_one(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    signed = carrying(documents, here.signed(statement(documents), issuer="https://else.example"))
    assert codes(signed, policy_of(trusting(here)), host) == ["AOTC-E302"]


@pytest.mark.parametrize("part", ["authority", "certificates", "log"])
def test_each_service_of_the_trusted_root_has_to_have_signed(
    part: str, documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    """The authority, its log of certificates, and the transparency log, each a stranger's."""
    forged = Sigstore(here.now, here.authority, here.certificates, here.log)
    setattr(forged, part, new())
    signed = carrying(documents, forged.signed(statement(documents)))
    assert codes(signed, policy_of(trusting(here)), host) == ["AOTC-E302"]
    assert codes(signed, policy_of(trusting(forged)), host) == []


def _entry(written: dict[str, Any]) -> dict[str, Any]:
    (entry,) = written["verificationMaterial"]["tlogEntries"]
    return entry


def _late(written: dict[str, Any]) -> None:
    _entry(written)["integratedTime"] = str(int(_entry(written)["integratedTime"]) + 3600)


def _without_log(written: dict[str, Any]) -> None:
    written["verificationMaterial"]["tlogEntries"] = []


def _without_promise(written: dict[str, Any]) -> None:
    del _entry(written)["inclusionPromise"]


def _another_tree(written: dict[str, Any]) -> None:
    _entry(written)["inclusionProof"]["rootHash"] = b64(bytes(32))


def _nothing(written: dict[str, Any]) -> None:
    written["verificationMaterial"] = {}


def _a_list(written: dict[str, Any]) -> None:
    written["verificationMaterial"] = [[]] * 5


@pytest.mark.parametrize(
    "change", [_late, _without_log, _without_promise, _another_tree, _nothing, _a_list]
)
def test_material_that_shows_nothing_is_not_counted(
    change: Change, documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    written = here.signed(statement(documents))
    change(written)
    assert codes(carrying(documents, written), policy_of(trusting(here)), host) == ["AOTC-E302"]


def test_a_signature_made_after_the_certificate_had_ended_is_not_counted(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    """Who finds the key of a certificate of ten minutes has nothing."""
    key = new()
    certificate = here.certificate(key, IDENTITY, ISSUER)
    for minutes, expected in ((9, []), (11, ["AOTC-E302"])):
        now = here.now + timedelta(minutes=minutes)
        later = Sigstore(now, here.authority, here.certificates, here.log)
        written = later.signed_with(key, certificate, statement(documents))
        assert codes(carrying(documents, written), policy_of(trusting(here)), host) == expected


def test_material_of_another_signature_shows_nothing(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    mine, theirs = here.signed(statement(documents)), here.signed(b"{}")
    mine["verificationMaterial"] = theirs["verificationMaterial"]
    assert codes(carrying(documents, mine), policy_of(trusting(here)), host) == ["AOTC-E302"]
    mine = here.signed(statement(documents))
    mine["dsseEnvelope"]["payload"] = b64(statement(documents, predicate={}))
    assert codes(carrying(documents, mine), policy_of(trusting(here)), host) == ["AOTC-E302"]


@pytest.mark.parametrize(
    "other",
    [
        {"subject": [{"name": "x", "digest": {"sha256": "0" * 64}}]},
        {"predicateType": "https://example.org/warning/v1"},
    ],
)
def test_what_an_identity_says_of_something_else_refuses_the_bundle(
    other: dict[str, Any], documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    signed = carrying(documents, here.signed(statement(documents, **other)))
    assert codes(signed, policy_of(trusting(here)), host) == ["AOTC-E305"]


def test_any_flipped_bit_of_the_material_shows_nothing_else(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    """Or the same: some of it is about nothing, such as white space."""
    written = here.signed(statement(documents))
    carrying(documents, written)
    document = json.loads(documents.envelopes[0])
    material = base64.b64decode(document["signatures"][0]["sigstore"])
    policy = policy_of(trusting(here))
    for at in range(0, len(material), 41):
        bad = material[:at] + bytes([material[at] ^ (1 << at % 8)]) + material[at + 1 :]
        document["signatures"][0]["sigstore"] = b64(bad)
        documents.envelopes = [to_json(document)]
        assert codes(put_together(documents), policy, host) in ([], ["AOTC-E302"]), at


def test_an_identity_counts_once_and_beside_keys(
    documents: Documents, host: HostFacts, here: Sigstore, ours: LocalSigner
) -> None:
    twice = carrying(documents, *[here.signed(statement(documents)) for _ in range(2)])
    identity, keys = trusting(here), (key_of(ours),)
    assert codes(twice, policy_of(identity, keys=keys, threshold=2), host) == ["AOTC-E304"]
    attested(documents, (ours, ENDORSEMENT))
    documents.envelopes.append(envelope_of(here.signed(statement(documents))))
    both = put_together(documents)
    assert codes(both, policy_of(identity, keys=keys, threshold=2), host) == []
    held = policy_of(trusting(here, holder="ci"), keys=(key_of(ours, holder="ci"),), threshold=1)
    assert codes(both, held, host) == []
    other = policy_of(
        trusting(here, holder="ci"),
        keys=(key_of(ours, holder="ci"), key_of(LocalSigner.ephemeral(), holder="x")),
        threshold=2,
    )
    assert codes(both, other, host) == ["AOTC-E304"]
    assert codes(both, policy_of(identity, keys=keys, threshold=3), host) == ["AOTC-E309"]


def test_an_identity_may_be_revoked(documents: Documents, host: HostFacts, here: Sigstore) -> None:
    signed = carrying(documents, here.signed(statement(documents)))
    identity = trusting(here)
    ids = (
        {"keys": (key_id(identity),)},
        {"since": {key_id(identity): datetime(2026, 1, 1, tzinfo=UTC)}},
    )
    for revoked in ids:
        policy = policy_of(identity, revoked=Revoked(**revoked))
        assert codes(signed, policy, host) == ["AOTC-E312"]


def test_an_identity_speaks_for_builders_as_a_key_does(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    build = {
        "buildDefinition": {"buildType": "https://aotc.dev/build/v1", "resolvedDependencies": []},
        "runDetails": {"builder": {"id": "https://ci.example.org"}, "metadata": {}},
    }
    signed = carrying(documents, here.signed(statement(documents, predicate=build)))
    speaks = trusting(here, builders=("https://ci.example.org",))
    assert codes(signed, policy_of(speaks), host) == []
    other = trusting(here, builders=("https://else.example.org",))
    assert codes(signed, policy_of(other), host) == ["AOTC-E323"]


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_at_every_door_an_identity_is_enough_and_another_is_not(
    form: str, documents: Documents, here: Sigstore, tmp_path: Path, capfd: Capture
) -> None:
    path = on_disk(carrying(documents, here.signed(statement(documents))), form, tmp_path)
    (tmp_path / "root.json").write_text(here.trusted_root(), "utf-8")
    trust = tmp_path / "trust.toml"
    text = (
        f'schema = 1\nname = "digits"\n[[identities]]\nissuer = "{ISSUER}"\n'
        f'identity = "{IDENTITY}"\ntrusted_root_file = "root.json"\n'
    )
    trust.write_text(text, "utf-8")
    assert at_every_door(path, trust, capfd) == [READY] * 3
    trust.write_text(text.replace("release", "pull"), "utf-8")
    assert at_every_door(path, trust, capfd) == [("AOTC-E302", 5)] * 3
    (tmp_path / "root.json").unlink()
    assert at_every_door(path, trust, capfd) == [("AOTC-E308", 5)] * 3
    (tmp_path / "root.json").write_bytes(b"\xff")
    assert at_every_door(path, trust, capfd) == [("AOTC-E309", 5)] * 3
    for more in ('trusted_root = "{}"\ntrusted_root_file = "x"', "", 'more = "x"'):
        trust.write_text(text.replace('trusted_root_file = "root.json"', more), "utf-8")
        assert at_every_door(path, trust, capfd) == [("AOTC-E309", 5)] * 3


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ("", ("AOTC-E309", "neither")),
        ('trusted_root = "{}"\ntrusted_root_file = "x"\n', ("AOTC-E309", "both")),
        ('trusted_root_file = "missing"\n', ("AOTC-E308", "No such file or directory")),
        ('trusted_root_file = "bytes"\n', ("AOTC-E309", "'utf-8' codec can't decode byte 0xff")),
    ],
)
def test_a_policy_says_what_is_wrong_with_trusted_roots(
    fields: str, found: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    path = tmp_path / "trust.toml"
    path.write_text(
        f'schema = 1\nname = "digits"\n[[identities]]\nissuer = "{ISSUER}"\n'
        f'identity = "{IDENTITY}"\n{fields}'
    )
    with pytest.raises(AotcError) as raised:
        policy_keys(read_policy(path), "policy")
    code, text = found
    assert code in [each.code for each in raised.value.findings]
    assert any(each.found.startswith(text) for each in raised.value.findings)
    assert {each.code for each in raised.value.findings} <= {code, "AOTC-E309"}


def test_material_of_the_largest_size_is_read_and_of_a_larger_one_not(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    written = here.signed(statement(documents))
    plain = json.dumps(written["verificationMaterial"]).encode()
    for more, expected in ((0, []), (4, ["AOTC-E111"])):
        envelope = json.loads(envelope_of(here.signed(statement(documents))))
        size = (identities.MATERIAL_CHARACTERS_MAX + more) // 4 * 3
        material = b64(plain + b" " * (size - len(plain)))
        assert len(material) == identities.MATERIAL_CHARACTERS_MAX + more
        envelope["signatures"] = [
            {**written["dsseEnvelope"]["signatures"][0], "sigstore": material}
        ]
        documents.envelopes = [to_json(envelope)]
        assert codes(put_together(documents), policy_of(trusting(here)), host) == expected


@pytest.mark.parametrize("root", ["", "{}", "x", '{"mediaType": "x"}'])
def test_a_trusted_root_that_is_none_is_refused(
    root: str, documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    signed = carrying(documents, here.signed(statement(documents)))
    assert codes(signed, policy_of(trusting(here, trusted_root=root)), host) == ["AOTC-E309"]


def test_identities_that_stand_twice_and_policies_with_nobody_are_refused(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    signed = carrying(documents, here.signed(statement(documents)))
    assert codes(signed, policy_of(trusting(here), trusting(here)), host) == ["AOTC-E309"]
    assert codes(signed, policy_of(), host) == ["AOTC-E309"]


def test_asking_identities_is_bounded(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    signed = carrying(documents, here.signed(statement(documents)))
    many = [trusting(here, identity=f"https://{number}") for number in range(70)]
    assert codes(signed, policy_of(*many), host) == ["AOTC-E119"]
    large = {**ENDORSEMENT, "more": "x" * 2**20}
    signed = carrying(documents, here.signed(statement(documents, predicate=large)))
    assert codes(signed, policy_of(*many[:12], trusting(here)), host) == []
    assert codes(signed, policy_of(*many[:25]), host) == ["AOTC-E119"]
    written = here.signed(statement(documents))
    written["verificationMaterial"]["more"] = "x" * 2**16
    assert codes(carrying(documents, written), policy_of(trusting(here)), host) == ["AOTC-E111"]
    document = json.loads(documents.envelopes[0])
    document["signatures"][0]["sigstore"] = "AAA"
    documents.envelopes = [to_json(document)]
    assert codes(put_together(documents), policy_of(trusting(here)), host) == ["AOTC-E107"]


def test_without_sigstore_a_policy_with_identities_is_refused_where_there_is_something_to_verify(
    documents: Documents,
    host: HostFacts,
    here: Sigstore,
    ours: LocalSigner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signed = carrying(documents, here.signed(statement(documents)))
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    assert codes(signed, policy_of(trusting(here)), host) == ["AOTC-E334"]
    attested(documents, (ours, ENDORSEMENT))
    keys = put_together(documents)
    assert codes(keys, policy_of(trusting(here), keys=(key_of(ours),)), host) == []


def _of_another_authority(here: Sigstore, payload: bytes) -> dict[str, Any]:
    return Sigstore(here.now, new(), here.certificates, here.log).signed(payload)


def _of_another_identity(here: Sigstore, payload: bytes) -> dict[str, Any]:
    return here.signed(payload, identity="https://else.example.org")


def _of_another_issuer(here: Sigstore, payload: bytes) -> dict[str, Any]:
    return here.signed(payload, issuer="https://else.example.org")


def _of_another_signature(here: Sigstore, payload: bytes) -> dict[str, Any]:
    written = here.signed(payload)
    written["verificationMaterial"] = here.signed(b"{}")["verificationMaterial"]
    return written


def _with_two_entries(here: Sigstore, payload: bytes) -> dict[str, Any]:
    written = here.signed(payload)
    written["verificationMaterial"]["tlogEntries"] *= 2
    return written


def _without_a_certificate(here: Sigstore, payload: bytes) -> dict[str, Any]:
    written = here.signed(payload)
    del written["verificationMaterial"]["certificate"]
    return written


@pytest.mark.parametrize(
    "made",
    [
        _of_another_authority,
        _of_another_identity,
        _of_another_issuer,
        _of_another_signature,
        _with_two_entries,
        _without_a_certificate,
    ],
)
def test_sigstores_library_is_not_asked_about_what_cannot_be_the_identitys(
    made: Callable[[Sigstore, bytes], dict[str, Any]],
    documents: Documents,
    host: HostFacts,
    here: Sigstore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes a second and 60 MB to be imported, which nobody may cost a host who can add junk."""
    signed = carrying(documents, made(here, statement(documents)))
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    assert codes(signed, policy_of(trusting(here)), host) == ["AOTC-E302"]


def test_material_of_too_many_values_is_refused_before_they_are_made(
    documents: Documents, host: HostFacts, here: Sigstore
) -> None:
    written = here.signed(statement(documents))
    written["verificationMaterial"]["more"] = [0] * limits.MATERIAL_MARKS_MAX
    assert codes(carrying(documents, written), policy_of(trusting(here)), host) == ["AOTC-E111"]


# `aotc attach`.


@pytest.fixture
def bundle(digits_bundle: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copyfile(digits_bundle[0], tmp_path / "b.aotb"))


def about(bundle: Path, **other: Any) -> bytes:
    root = read_root(open_bundle(bundle)).entry.digest.removeprefix("sha256:")
    made = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "digits", "digest": {"sha256": root}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": ENDORSEMENT,
    }
    return to_json({**made, **other})


def test_what_is_attached_is_believed_by_a_policy_that_names_who_signed(
    bundle: Path, here: Sigstore, tmp_path: Path, capfd: Capture
) -> None:
    from aotc.cli.command_group import run_command
    from aotc.cli.stop_signals import Stops

    file, trust = tmp_path / "b.sigstore.json", tmp_path / "trust.toml"
    file.write_text(json.dumps(here.signed(about(bundle))), "utf-8")
    (tmp_path / "root.json").write_text(here.trusted_root(), "utf-8")
    trust.write_text(
        f'schema = 1\nname = "digits"\n[[identities]]\nissuer = "{ISSUER}"\n'
        f'identity = "{IDENTITY}"\ntrusted_root_file = "root.json"\n',
        "utf-8",
    )
    assert at_every_door(bundle, trust, capfd) == [("AOTC-E302", 5)] * 3
    assert run_command(["attach", str(bundle), str(file)], Stops()) == 0
    capfd.readouterr()
    assert at_every_door(bundle, trust, capfd) == [READY] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda written: written.update(mediaType="application/json"),
        lambda written: written.pop("verificationMaterial"),
        lambda written: written["dsseEnvelope"].update(signatures=[]),
        lambda written: written["dsseEnvelope"].update(payload="AAAA"),
        lambda written: written["dsseEnvelope"].update(payloadType="text/plain"),
        # With what follows a policy would refuse the bundle, whoever else has signed it.
        lambda written: written["dsseEnvelope"].update(
            payload=written["dsseEnvelope"]["payload"][:4]
            + "\n"
            + written["dsseEnvelope"]["payload"][4:]
        ),
        lambda written: written["dsseEnvelope"]["signatures"][0].update(sig="A"),
    ],
)
def test_what_is_no_sigstore_bundle_is_not_attached(
    change: Change, bundle: Path, here: Sigstore, tmp_path: Path
) -> None:
    written = here.signed(about(bundle))
    change(written)
    refused_to_attach(bundle, tmp_path, json.dumps(written))


@pytest.mark.parametrize(
    "other",
    [
        {"subject": [{"name": "x", "digest": {"sha256": "0" * 64}}]},
        {"predicateType": "https://example.org/warning/v1"},
    ],
)
def test_what_is_about_something_else_is_not_attached(
    other: dict[str, Any], bundle: Path, here: Sigstore, tmp_path: Path
) -> None:
    refused_to_attach(bundle, tmp_path, json.dumps(here.signed(about(bundle, **other))))


def test_as_much_material_is_attached_as_readers_take(
    bundle: Path, here: Sigstore, tmp_path: Path
) -> None:
    written = here.signed(about(bundle))
    material = written["verificationMaterial"] | {"more": ""}
    most = identities.MATERIAL_CHARACTERS_MAX // 4 * 3
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
