"""Taking bundles apart, changing them and putting them together again, as an attacker would.

Documents are plain dicts and are written with the standard library, so that nothing here depends on
the code under test.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.schema.host_facts import Accelerator, HostFacts
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import verify

BLOBS = "blobs/sha256/"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IN_TOTO = "application/vnd.in-toto+json"
EMPTY = "application/vnd.oci.empty.v1+json"
ACCEPTED = "accepted"


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def to_json(value: Any) -> bytes:
    """Canonical JSON, by the standard library."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class MemoryBundle:
    """A bundle in memory. files: by name.  blobs: by the digest they are stored under."""

    files: Mapping[str, bytes]
    blobs: Mapping[str, bytes]
    name: str = "bundle"

    def file(self, name: str) -> memoryview | None:
        return memoryview(self.files[name]) if name in self.files else None

    def blob(self, digest: str) -> memoryview | None:
        return memoryview(self.blobs[digest]) if digest in self.blobs else None

    def digests(self) -> frozenset[str]:
        return frozenset(self.blobs)

    def members(self) -> dict[str, bytes]:
        """File names and contents, as they lie in an archive or a folder."""
        blobs = {BLOBS + digest[7:]: data for digest, data in self.blobs.items()}
        return {**self.files, **blobs}

    def with_file(self, name: str, data: bytes) -> MemoryBundle:
        return MemoryBundle({**self.files, name: data}, self.blobs)

    def with_blob(self, digest: str, data: bytes) -> MemoryBundle:
        """Other bytes under a digest."""
        return MemoryBundle(self.files, {**self.blobs, digest: data})

    def without(self, member: str) -> MemoryBundle:
        """A file or a blob less."""
        files = {name: data for name, data in self.files.items() if name != member}
        blobs = {digest: data for digest, data in self.blobs.items() if digest != member}
        return MemoryBundle(files, blobs)


def in_memory(path: Path) -> MemoryBundle:
    source = open_bundle(path)
    members = {name: bytes(data) for name, data in source.members.items()}
    blobs = {"sha256:" + n[len(BLOBS) :]: d for n, d in members.items() if n.startswith(BLOBS)}
    return MemoryBundle({n: d for n, d in members.items() if not n.startswith(BLOBS)}, blobs)


def with_one_attestation(bundle: MemoryBundle) -> MemoryBundle:
    """The bundle without its bill of materials, so that attacks have one envelope to change."""
    index = json.loads(bundle.files["index.json"])
    root, *attestations = index["manifests"]
    kept, gone = [], set()
    for each in attestations:
        envelope = json.loads(bundle.blobs[each["digest"]])["layers"][0]["digest"]
        if b"slsa" in _payload(bundle.blobs[envelope]):
            kept.append(each)
        else:
            gone |= {each["digest"], envelope}
    index["manifests"] = [root, *kept]
    blobs = {digest: data for digest, data in bundle.blobs.items() if digest not in gone}
    return MemoryBundle({**bundle.files, "index.json": to_json(index)}, blobs)


def _payload(envelope: bytes) -> bytes:
    return base64.b64decode(json.loads(envelope)["payload"])


@dataclass(slots=True)
class Target:
    """The two documents of a target."""

    image: dict[str, Any]
    manifest: dict[str, Any]


@dataclass(slots=True)
class Documents:
    """A bundle taken apart; change anything, then `put_together`."""

    layout: dict[str, Any]
    index: dict[str, Any]
    root: dict[str, Any]
    targets: list[Target]
    layers: dict[str, bytes]
    envelopes: list[bytes]
    surplus: list[bytes] = field(default_factory=list)

    @property
    def image(self) -> dict[str, Any]:
        return self.targets[0].image

    @property
    def manifest(self) -> dict[str, Any]:
        return self.targets[0].manifest

    @property
    def profile(self) -> dict[str, Any]:
        """The first profile of the only entry point."""
        return self.manifest["entry_points"]["predict"]["profiles"][0]


def take_apart(bundle: MemoryBundle) -> Documents:
    index = json.loads(bundle.files["index.json"])
    root = json.loads(bundle.blobs[index["manifests"][0]["digest"]])
    targets, layers = [], {}
    for reference in root["manifests"]:
        image = json.loads(bundle.blobs[reference["digest"]])
        targets.append(Target(image, json.loads(bundle.blobs[image["config"]["digest"]])))
        layers |= {layer["digest"]: bundle.blobs[layer["digest"]] for layer in image["layers"]}
    attestations = [json.loads(bundle.blobs[entry["digest"]]) for entry in index["manifests"][1:]]
    envelopes = [bundle.blobs[a["layers"][0]["digest"]] for a in attestations]
    layout = json.loads(bundle.files["oci-layout"])
    return Documents(layout, index, root, targets, layers, envelopes)


def put_together(documents: Documents) -> MemoryBundle:
    """The bundle with every digest and size right again, from the manifest up to index.json."""
    blobs = dict(documents.layers)

    def store(data: bytes) -> dict[str, Any]:
        blobs[digest_of(data)] = data
        return {"digest": digest_of(data), "size": len(data)}

    for data in documents.surplus:
        store(data)
    for target, reference in zip(documents.targets, documents.root["manifests"], strict=True):
        target.image["config"] |= store(to_json(target.manifest))
        reference |= store(to_json(target.image))
    root = {"mediaType": INDEX, **store(to_json(documents.root))}
    entries = [{**documents.index["manifests"][0], **root}]
    for envelope in documents.envelopes:
        attestation = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": IN_TOTO,
            "config": {"mediaType": EMPTY, **store(b"{}")},
            "layers": [{"mediaType": IN_TOTO, **store(envelope)}],
            "subject": root,
        }
        entries.append({"mediaType": MANIFEST, **store(to_json(attestation))})
    documents.index["manifests"] = entries
    files = {"oci-layout": to_json(documents.layout), "index.json": to_json(documents.index)}
    return MemoryBundle(files, blobs)


def swap_layer(documents: Documents, old: str, data: bytes) -> None:
    """Put other bytes in a layer's place, with references that fit."""
    new = {"digest": digest_of(data), "size": len(data)}

    def fix(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("digest") == old:
                value |= new
            for child in value.values():
                fix(child)
        elif isinstance(value, list):
            for child in value:
                fix(child)

    for target in documents.targets:
        fix(target.image)
        fix(target.manifest)
        target.image["layers"].sort(key=lambda layer: layer["digest"])
    del documents.layers[old]
    documents.layers[new["digest"]] = data


def roles(bundle: MemoryBundle) -> dict[str, str]:
    """One digest for every kind of blob."""
    index = json.loads(bundle.files["index.json"])
    root, attestation, *_ = (entry["digest"] for entry in index["manifests"])
    image = json.loads(bundle.blobs[root])["manifests"][0]["digest"]
    config = json.loads(bundle.blobs[image])["config"]["digest"]
    manifest = json.loads(bundle.blobs[config])
    profile = manifest["entry_points"]["predict"]["profiles"][0]
    signed = json.loads(bundle.blobs[attestation])
    return {
        "root index": root,
        "image manifest": image,
        "bundle manifest": config,
        "weights": manifest["weights"]["params"]["blobs"][0]["digest"],
        "module": profile["module"]["digest"],
        "executable": profile["executable"]["digest"],
        "fixture": profile["fixture"]["digest"],
        "attestation": attestation,
        "envelope": signed["layers"][0]["digest"],
        "empty config": signed["config"]["digest"],
    }


ROLES = (
    *("root index", "image manifest", "bundle manifest", "weights", "module", "executable"),
    *("fixture", "attestation", "envelope", "empty config"),
)


def flipped(data: bytes, at: int | None = None, mask: int = 1) -> bytes:
    """The bytes with some bits of one of them (the middle one) turned over."""
    place = len(data) // 2 if at is None else at
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def statement_about(root_digest: str) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "digits-1.0.0", "digest": {"sha256": root_digest[7:]}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {},
    }


def envelope(payload: bytes, *signatures: tuple[str, bytes], payload_type: str = IN_TOTO) -> bytes:
    """A DSSE envelope with these (key id, signature) pairs."""
    return to_json(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": payload_type,
            "signatures": [
                {"keyid": keyid, "sig": base64.b64encode(signature).decode()}
                for keyid, signature in signatures
            ],
        }
    )


def authenticated(payload: bytes, payload_type: str = IN_TOTO) -> bytes:
    """DSSE's pre-authentication encoding."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def signed_envelope(
    payload: bytes, *signers: LocalSigner, keyid: str | None = None, payload_type: str = IN_TOTO
) -> bytes:
    """A good envelope; keyid: what to claim instead of the signers' own."""
    message = authenticated(payload, payload_type)
    pairs = [(keyid if keyid is not None else s.key_id, s.sign(message)) for s in signers]
    return envelope(payload, *pairs, payload_type=payload_type)


def root_digest(documents: Documents) -> str:
    index = json.loads(put_together(documents).files["index.json"])
    return index["manifests"][0]["digest"]


def signed(documents: Documents, *signers: LocalSigner) -> MemoryBundle:
    """The bundle signed by exactly these, one envelope each, no two alike."""
    statement = statement_about(root_digest(documents))
    documents.envelopes = [
        signed_envelope(to_json({**statement, "predicate": {"number": number}}), signer)
        for number, signer in enumerate(signers)
    ]
    return put_together(documents)


def second_target(documents: Documents, name: str = "other") -> None:
    """One more target that shares all but one executable, which has a byte more."""
    image, manifest = json.loads(to_json([documents.image, documents.manifest]))
    profile = manifest["entry_points"]["predict"]["profiles"][0]
    data = documents.layers[profile["executable"]["digest"]] + b"\0"
    new = {"digest": digest_of(data), "size": len(data)}
    for layer in image["layers"]:
        if layer["digest"] == profile["executable"]["digest"]:
            layer |= new
    image["layers"].sort(key=lambda layer: layer["digest"])
    profile["executable"] |= new
    manifest["target"]["name"] = name
    documents.layers[new["digest"]] = data
    documents.targets.append(Target(image, manifest))
    first = documents.root["manifests"][0]
    documents.root["manifests"].append({**first, "annotations": {"vnd.aotc.target": name}})


def two_targets(
    documents: Documents, *signers: LocalSigner
) -> tuple[MemoryBundle, dict[str, str], dict[str, str]]:
    """A good bundle of two targets, and of each its image, config and one executable by digest."""
    second_target(documents)
    bundle = signed(documents, *signers)
    root = json.loads(
        bundle.blobs[json.loads(bundle.files["index.json"])["manifests"][0]["digest"]]
    )
    digests = []
    for reference, target in zip(root["manifests"], documents.targets, strict=True):
        profile = target.manifest["entry_points"]["predict"]["profiles"][0]
        digests.append(
            {
                "image": reference["digest"],
                "config": target.image["config"]["digest"],
                "executable": profile["executable"]["digest"],
            }
        )
    return bundle, digests[0], digests[1]


def policy_for(*signers: LocalSigner, name: str = "digits", **more: Any) -> TrustPolicy:
    """A policy that trusts these signers."""
    keys = tuple(TrustedKey(public_key=signer.public_pem()) for signer in signers)
    return TrustPolicy(schema=1, name=name, keys=keys, **more)


def host_for(bundle: MemoryBundle) -> HostFacts:
    """A host that runs this bundle of one target, and is the same wherever the tests run."""
    manifest = json.loads(bundle.blobs[roles(bundle)["bundle manifest"]])
    requires = manifest["requires"]
    needs = {requires["platform"]: requires["device"]} if "device" in requires else {}
    needs |= requires.get("engines", {})
    has = tuple(_accelerator(platform, each) for platform, each in needs.items())
    return HostFacts(
        platform="cpu",
        architecture="x86_64",
        cpu="made up",
        isa=frozenset(manifest["requires"]["isa"]),
        jaxlib=manifest["accepts_jaxlib"][0],
        devices=1,
        devices_fixed=True,
        memory_bytes=2**40,
        accelerators=has,
    )


def _accelerator(platform: str, needs: dict[str, Any]) -> Accelerator:
    """Return what runs executables of another engine than XLA."""
    return Accelerator(
        platform=platform,
        devices=1,
        kinds=tuple(needs["kinds"]),
        memory_bytes=2**40,
        plugin=needs["accepts_plugin"][0],
    )


def host_with(host: HostFacts, **change: Any) -> HostFacts:
    """The same host but for these facts."""
    facts = {name: getattr(host, name) for name in HostFacts.__annotations__}
    return HostFacts(**{**facts, **change})


def code_of(
    source: BlobSource, policy: TrustPolicy, host: HostFacts, target: str | None = None
) -> str:
    """The code that verification refuses with, or "accepted"."""
    try:
        verify(source, policy, host, time.time(), target)
    except AotcError as error:
        return error.code
    return ACCEPTED


def write_folder(path: Path, bundle: MemoryBundle) -> Path:
    for name, data in bundle.members().items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return path
