"""Attestations as Sigstore bundles: ours as cosign's specification has them, and those of others.

Where cosign, sigstore-go and Kyverno read, the rules stand here as their code has them (cosign 3.1,
July 2026): pkg/oci/remote/signatures.go, sigstore-go's pkg/verify/signature.go, Kyverno's
pkg/image/verifiers/cpol/cosign/sigstore.go.
"""

import base64
import copy
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify.policy import Identity as Rule
from sigstore.verify.verifier import Verifier
from sigstore_models.trustroot.v1 import TrustedRoot as Written

from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import KeyType, LocalSigner
from aotc.cli.command_group import cli
from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.in_toto import PAYLOAD_TYPE, pre_authentication_encoding
from aotc_runtime.formats.oci_layout import EMPTY_TYPE, INDEX_TYPE, MANIFEST_TYPE
from aotc_runtime.schema.trust_policy import Identity, TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.sigstore_bundles import referrers_of
from aotc_serve.store import Store, store_pull
from aotc_serve.store.store_pull import accept_signed
from tests.hostile.authorities import authority
from tests.hostile.identities import IDENTITY, ISSUER, Sigstore
from tests.hostile.provenances import ENDORSEMENT
from tests.hostile.tampering import policy_for, statement_about, to_json
from tests.hostile.test_identities import FLAWS
from tests.registries.conftest import LAYERS, REPO, Registry
from tests.registries.oci_server import OciServer, sha256
from tests.registries.sigstore_services import signing

SIGSTORE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREFIX = "application/vnd.dev.sigstore.bundle"
PROVENANCE = "https://slsa.dev/provenance/v1"

Json = dict[str, Any]


@pytest.fixture(params=list(KeyType))
def signer(request: pytest.FixtureRequest) -> LocalSigner:
    return LocalSigner.ephemeral(request.param)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def hint_of(signer: LocalSigner) -> str:
    """Spell a hint as cosign writes it (internal/key/svkeypair.go)."""
    return b64(bytes.fromhex(signer.key_id))


def listed(repository: Repository, root: str) -> list[Json]:
    """The descriptors of a root's referrers as go-containerregistry gets them."""
    found = repository.document(f"referrers/{root}", 2**20)
    stored = repository.manifest(root.replace(":", "-"))
    data = found[0] if found else stored.data if stored else b'{"manifests":[]}'
    return json.loads(data)["manifests"]


def listed_bundles(repository: Repository, server: OciServer) -> list[tuple[Json, Json, Json]]:
    """Descriptor, manifest and bundle of each that Kyverno's filter leaves, as it reads them."""
    found = []
    for descriptor in listed(repository, ROOT):
        if not descriptor["artifactType"].startswith(PREFIX):
            continue
        manifest = json.loads(server.manifests[REPO, descriptor["digest"]][0])
        layer = manifest["layers"][0]
        data = server.blobs[REPO, layer["digest"]]
        assert len(data) == layer["size"] <= 10 * 2**20
        found.append((descriptor, manifest, json.loads(data)))
    return found


def bundles(registry: Registry) -> list[tuple[Json, Json, Json]]:
    return listed_bundles(registry.connect(), registry.server)


def cosign_accepts(manifest: Json, bundle: Json, public_pem: str, root: str) -> bool:
    """Return whether `cosign verify-attestation --key --insecure-ignore-tlog` takes a bundle."""
    (layer,) = manifest["layers"]
    envelope, material = bundle["dsseEnvelope"], bundle["verificationMaterial"]
    # protojson refuses unknown fields, and one of a `oneof` is there.
    known = {"publicKey", "timestampVerificationData"}
    assert bundle.keys() == {"mediaType", "verificationMaterial", "dsseEnvelope"}
    assert "publicKey" in material and material.keys() <= known
    assert envelope.keys() == {"payload", "payloadType", "signatures"}
    (signature,) = envelope["signatures"]
    # dsse.EnvelopeVerifier compares a keyid with the SSH fingerprint of the key.
    assert signature.keys() == {"sig"}
    payload = base64.b64decode(envelope["payload"])
    key, made = load_pem_public_key(public_pem.encode()), base64.b64decode(signature["sig"])
    message = pre_authentication_encoding(envelope["payloadType"], payload)
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(made, message, ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(made, message)  # type: ignore[union-attr,call-arg,arg-type]
    except Exception:  # noqa: BLE001 - whatever it is
        return False
    subjects = [each["digest"].get("sha256") for each in json.loads(payload)["subject"]]
    is_attestation = envelope["payloadType"] == "application/vnd.in-toto+json"
    return layer["mediaType"].startswith(PREFIX) and is_attestation and root[7:] in subjects


def test_attestations_are_pushed_as_cosign_specifies(
    either: Registry, signer: LocalSigner, tmp_path: Path
) -> None:
    path = Path(shutil.copy(LAYERS, tmp_path / "layers.aotb"))
    endorse(path, signer)
    pushed = either.push(path)
    root, server = pushed.place.digest, either.server
    found = bundles(either)
    assert len(found) == pushed.attestations == 3
    for descriptor, manifest, bundle in found:
        predicate = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))["predicateType"]
        annotations = {
            "dev.sigstore.bundle.content": "dsse-envelope",
            "dev.sigstore.bundle.predicateType": predicate,
        }
        data = server.blobs[REPO, manifest["layers"][0]["digest"]]
        root_data, root_type = server.manifests[REPO, root]
        described = {"mediaType": root_type, "digest": root, "size": len(root_data)}
        assert manifest == {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "schemaVersion": 2,
            "artifactType": SIGSTORE,
            "annotations": annotations,
            "config": {"mediaType": EMPTY_TYPE, "digest": sha256(b"{}"), "size": 2},
            "layers": [{"mediaType": SIGSTORE, "digest": sha256(data), "size": len(data)}],
            "subject": described,
        }
        stored = server.manifests[REPO, descriptor["digest"]][0]
        assert descriptor["mediaType"] == MANIFEST_TYPE and descriptor["size"] == len(stored)
        assert descriptor["artifactType"] == bundle["mediaType"] == SIGSTORE
        tagged = json.loads(server.manifests[REPO, root.replace(":", "-")][0])["manifests"]
        assert {**descriptor, "annotations": annotations} in tagged
    ours = [each for each in found if cosign_accepts(*each[1:], signer.public_pem(), root)]
    ((_, _, bundle),) = ours
    assert bundle["verificationMaterial"] == {"publicKey": {"hint": hint_of(signer)}}
    again = server.count("PUT", "/blobs/uploads/")
    either.push(path)
    assert server.count("PUT", "/blobs/uploads/") == again and len(bundles(either)) == 3


def test_timestamps_and_material_are_in_the_bundle() -> None:
    root = open_root()
    stamped = {"sig": b64(b"1"), "keyid": "ab", "timestamp": b64(b"time")}
    identified = {"sig": b64(b"2"), "sigstore": b64(b'{"certificate": {"rawBytes": "AA=="}}')}
    junk = {"sig": b64(b"3"), "sigstore": b64(b"?")}
    large = {"sig": b64(b"3"), "sigstore": b64(b"1" + b" " * limits.MATERIAL_CHARACTERS_MAX)}
    payload = b64(to_json(statement_about(root.digest)))
    envelope = {"payload": payload, "payloadType": PAYLOAD_TYPE}
    made = referrers_of(to_json(envelope | {"signatures": [stamped, identified, junk]}), root)
    first, second = [json.loads(each.bundle)["verificationMaterial"] for each in made]
    stamps = {"rfc3161Timestamps": [{"signedTimestamp": stamped["timestamp"]}]}
    assert first == {"publicKey": {"hint": "ab"}, "timestampVerificationData": stamps}
    assert second == {"certificate": {"rawBytes": "AA=="}}
    for other in ({"payload": b64(b"x"), "signatures": []}, {"signatures": [large]}):
        assert not [*referrers_of(to_json(envelope | other), root)]


def open_root() -> Any:
    from aotc.bundle.write.oci_descriptors import entry_descriptor
    from aotc_runtime.verification.bundle_contents import read_root

    return entry_descriptor(read_root(open_streamed(LAYERS)).entry)


ROOT = open_root().digest


def by_cosign(signer: LocalSigner, **other: Any) -> Json:
    """A bundle as `cosign attest --key` makes it of a statement, or of other fields."""
    payload = to_json({**statement_about(ROOT), "predicate": ENDORSEMENT, **other})
    return signed(signer, payload, PAYLOAD_TYPE)


def signed(signer: LocalSigner, payload: bytes, kind: str) -> Json:
    made = signer.sign(pre_authentication_encoding(kind, payload))
    return {
        "mediaType": SIGSTORE,
        "verificationMaterial": {"publicKey": {"hint": hint_of(signer)}},
        "dsseEnvelope": {
            "payload": b64(payload),
            "payloadType": kind,
            "signatures": [{"sig": b64(made)}],
        },
    }


def attach(
    server: OciServer, bundle: Json, data: bytes = b"", listed: Json | None = None, **other: Any
) -> None:
    """Attach a bundle to the pushed root as cosign does (pkg/oci/remote/write.go)."""
    data = data or json.dumps(bundle).encode()
    server.blobs[REPO, sha256(data)] = data
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {
            "mediaType": EMPTY_TYPE, "size": 2, "digest": sha256(b"{}"), "artifactType": SIGSTORE
        },
        "layers": [{"mediaType": SIGSTORE, "size": len(data), "digest": sha256(data)}],
        "annotations": {"org.opencontainers.image.created": "2026-11-27T12:00:00Z"},
        "subject": {"mediaType": INDEX_TYPE, "size": 2, "digest": ROOT},
        "artifactType": SIGSTORE,
        **other,
    }  # fmt: skip
    stored = json.dumps(manifest).encode()
    server.manifests[REPO, sha256(stored)] = stored, MANIFEST_TYPE
    tag = REPO, ROOT.replace(":", "-")
    index = json.loads(server.manifests[tag][0])
    described = {"mediaType": MANIFEST_TYPE, "size": len(stored), "digest": sha256(stored)}
    described["artifactType"] = manifest["artifactType"]
    index["manifests"].append({**described, **(listed or {})})
    server.manifests[tag] = json.dumps(index).encode(), INDEX_TYPE


def codes(registry: Registry, policy: TrustPolicy, folder: Path) -> list[str]:
    """The codes of the findings about signatures when the bundle is pulled by this policy."""
    accept = accept_signed(policy, time.time(), "layers")
    try:
        store_pull.pull(registry.connect(f"{REPO}@{ROOT}"), Store(folder), accept=accept)
    except AotcError as error:
        return [finding.code for finding in error.findings]
    return []


def test_a_key_that_signed_with_cosign_counts(
    either: Registry, signer: LocalSigner, tmp_path: Path
) -> None:
    policy = policy_for(signer, name="layers")
    either.push()
    assert codes(either, policy, tmp_path) == ["AOTC-E302"]
    attach(either.server, by_cosign(signer))
    attach(either.server, by_cosign(signer), annotations={"twice": "yes"})
    assert codes(either, policy, tmp_path) == []
    back, accept = tmp_path / "back.aotb", accept_signed(policy, time.time(), "layers")
    assert either.pull(back, accept=accept).root_digest == ROOT
    extra = open_streamed(back).digests() - open_streamed(LAYERS).digests()
    assert len(extra) == 2, "an envelope and its manifest"
    asked = either.server.count("GET", theirs := sha256(json.dumps(by_cosign(signer)).encode()))
    either.pull(back)
    assert back.read_bytes() == LAYERS.read_bytes(), "without a policy nobody else's are taken"
    assert either.server.count("GET", theirs) == asked > 0


def of_another_kind(signer: LocalSigner) -> Json:
    payload = to_json({**statement_about(ROOT), "predicate": ENDORSEMENT})
    return signed(signer, payload, "text/plain")


def changed(change: Callable[[Json], object]) -> Callable[[LocalSigner], Json]:
    def made(signer: LocalSigner) -> Json:
        bundle = by_cosign(signer)
        change(bundle)
        return bundle

    return made


def second_signature(bundle: Json) -> None:
    bundle["dsseEnvelope"]["signatures"].append({"sig": b64(bytes(64))})


OTHER_ROOT = {"subject": [{"name": "x", "digest": {"sha256": "0" * 64}}]}
TWO_ROOTS = {"subject": [*statement_about(ROOT)["subject"], *OTHER_ROOT["subject"]]}


@pytest.mark.parametrize(
    "made",
    [
        of_another_kind,
        lambda signer: by_cosign(signer, **OTHER_ROOT),
        lambda signer: by_cosign(signer, **TWO_ROOTS),
        lambda signer: by_cosign(signer, predicateType="https://example.org/scan/v1"),
        changed(lambda b: b.update(mediaType=f"{PREFIX}+json;version=0.2")),
        changed(second_signature),
        changed(lambda b: b["dsseEnvelope"]["signatures"][0].update(keyid="0" * 64)),
        changed(lambda b: b.update(verificationMaterial={"x509CertificateChain": {}})),
        changed(lambda b: b["dsseEnvelope"].update(payload=b["dsseEnvelope"]["payload"] + "\n")),
        changed(lambda b: b["verificationMaterial"].update(x=[0] * limits.MATERIAL_MARKS_MAX)),
    ],
    ids=[
        "payload type", "other root", "two roots", "predicate", "version", "two signatures",
        "keyid beside the hint", "chain", "base64", "values",
    ],
)  # fmt: skip
def test_other_contents_are_not_collected(
    made: Callable[[LocalSigner], Json], registry: Registry, tmp_path: Path
) -> None:
    """Nor refused, although a key of the policy has signed: they say nothing about this bundle."""
    signer = LocalSigner.ephemeral()
    registry.push()
    attach(registry.server, made(signer))
    assert codes(registry, policy_for(signer, name="layers"), tmp_path) == ["AOTC-E302"]


@pytest.mark.parametrize(
    "other",
    [
        {"subject": {"mediaType": INDEX_TYPE, "size": 2, "digest": sha256(b"other")}},
        {"artifactType": ""},
        {"layers": []},
        {"layers": "two"},
        {"layers": "type"},
        {"layers": "size"},
        {"listed": {"annotations": {"dev.sigstore.bundle.predicateType": "scan"}}},
    ],
)
def test_other_manifests_are_not_collected(other: Json, registry: Registry, tmp_path: Path) -> None:
    signer = LocalSigner.ephemeral()
    registry.push()
    bundle = json.dumps(by_cosign(signer)).encode()
    layer = {"mediaType": SIGSTORE, "size": len(bundle), "digest": sha256(bundle)}
    bad = {
        "two": [layer, layer],
        "type": [layer | {"mediaType": "application/json"}],
        "size": [layer | {"size": limits.ENVELOPE_BYTES_MAX + 1}],
    }
    if isinstance(named := other.get("layers"), str):
        other = {"layers": bad[named]}
    registry.server.referrers = "listed" not in other
    attach(registry.server, {}, bundle, **other)
    before = registry.server.count("GET", f"/blobs/{sha256(bundle)}")
    assert codes(registry, policy_for(signer, name="layers"), tmp_path) == ["AOTC-E302"]
    assert registry.server.count("GET", f"/blobs/{sha256(bundle)}") == before == 0
    attach(registry.server, {}, bundle)
    assert codes(registry, policy_for(signer, name="layers"), tmp_path) == []


def test_a_hint_of_another_key_is_refused(registry: Registry, tmp_path: Path) -> None:
    ours, theirs = LocalSigner.ephemeral(), LocalSigner.ephemeral()
    registry.push()
    bundle = by_cosign(ours)
    bundle["verificationMaterial"]["publicKey"]["hint"] = hint_of(theirs)
    attach(registry.server, bundle)
    assert codes(registry, policy_for(ours, name="layers"), tmp_path) == []
    both = policy_for(ours, theirs, name="layers")
    assert codes(registry, both, tmp_path) == ["AOTC-E303"]


def test_junk_is_bounded_before_it_is_fetched(registry: Registry, tmp_path: Path) -> None:
    registry.push()
    junk = [bytes([number]) * 2**22 for number in range(2)]
    for data in junk:
        attach(registry.server, {}, data)
    policy = policy_for(LocalSigner.ephemeral(), name="layers")
    assert codes(registry, policy, tmp_path) == ["AOTC-E111"]
    assert sum(registry.server.count("GET", f"/blobs/{sha256(data)}") for data in junk) == 1


def other_byte(part: Json, key: str) -> None:
    data = base64.b64decode(part[key])
    part[key] = b64(data[:-1] + bytes([data[-1] ^ 1]))


CHANGES: dict[str, Callable[[Json], object]] = {
    "predicate": lambda b: b["dsseEnvelope"].update(payload=b64(to_json(statement_about(ROOT)))),
    "signature": lambda b: other_byte(b["dsseEnvelope"]["signatures"][0], "sig"),
    "certificate": lambda b: other_byte(material(b)["certificate"], "rawBytes"),
    "entry": lambda b: other_byte(material(b)["tlogEntries"][0], "canonicalizedBody"),
}


@pytest.mark.parametrize("rekor", [1, 2])
def test_what_sigstore_python_signs_counts_and_changes_of_it_do_not(
    rekor: int, registry: Registry, tmp_path: Path
) -> None:
    """Attach it as GitHub's attest does, and `cosign attest` without a key."""
    here = Sigstore(timestamps=authority(tmp_path / "tsa") if rekor == 2 else None)
    payload = to_json({**statement_about(ROOT), "predicate": ENDORSEMENT})
    registry.push()
    with signing(here, rekor) as sign:
        good, large = (sign(payload) for _ in range(2))
    material(large)["more"] = "x" * limits.MATERIAL_CHARACTERS_MAX
    attach(registry.server, large)
    by = Identity(issuer=ISSUER, identity=IDENTITY, trusted_root=here.trusted_root())
    policy = TrustPolicy(schema=1, name="layers", identities=(by,))
    for name, change in {**CHANGES, **FLAWS[rekor]}.items():
        bad = copy.deepcopy(good)
        change(bad)
        attach(registry.server, bad)
        assert codes(registry, policy, tmp_path / "store") == ["AOTC-E302"], name
    attach(registry.server, good)
    root, keys = (
        store_pull.resolve(registry.connect(f"{REPO}@{ROOT}")),
        policy_for(LocalSigner.ephemeral()),
    )
    found = store_pull.fetch_attestations(registry.connect(), root, keys)
    assert len(found.attestations) == 2, "of identities only where the policy has some"
    reference = f"oci://{registry.server.address}/{REPO}@{ROOT}"
    for stated, code in ((IDENTITY, 0), (f"{IDENTITY}x", 5)):
        text = f'schema = 1\nname = "layers"\n[[identities]]\nissuer = "{ISSUER}"\n'
        text += f'identity = "{stated}"\ntrusted_root_file = "root.json"\n'
        (tmp_path / "trust.toml").write_text(text)
        (tmp_path / "root.json").write_text(here.trusted_root())
        for command in (["verify"], ["pull", "-o", str(tmp_path / f"{code}.aotb")]):
            words = [*command, reference, "--trust", str(tmp_path / "trust.toml")]
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == code, done.output
    registry.push(tmp_path / "0.aotb")
    pushed = [b for *_, b in bundles(registry) if "certificate" in material(b)][-1]
    trusted = TrustedRoot(Written.from_json(here.trusted_root()))
    rule = Rule(identity=IDENTITY, issuer=ISSUER)
    verified = Verifier(trusted_root=trusted).verify_dsse(
        Bundle.from_json(json.dumps(pushed)), rule
    )
    assert verified == (PAYLOAD_TYPE, payload)


def material(bundle: Json) -> Json:
    return bundle["verificationMaterial"]
