"""A second reader of bundles, from docs/reference alone: archive, documents, signatures, policy.

It shares no code with `aotc_runtime` and was written from bundle-format.md and trust-policy.md. It
covers steps 1 to 7 of trust-policy.md, without Sigstore identities, timestamps, certificates, rules
on builds, and what depends on a host.
"""

import base64
import binascii
import fnmatch
import hashlib
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from .consistency import contradictions
from .documents import INDEX, MANIFEST, STRUCTS, Rejected, canonical, fits, foreign, reject_if

MIB = 2**20
MEMBER = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")
BLOB = re.compile(r"blobs/sha256/[0-9a-f]{64}")
PROVENANCE = "https://slsa.dev/provenance/v1"
SILENT = ("https://aotc.dev/certificate/v1", "https://cyclonedx.org/bom")
IN_TOTO = "application/vnd.in-toto+json"
TYPE = "application/vnd.aotc."
STAGES = ("framing", "attestations", "signatures", "digests", "policy")

type Blobs = dict[str, bytes]


def verdict(data: bytes, policy_text: str, now: float) -> tuple[str, str]:
    """Return the code and the stage that reject a bundle; ("accepted", "") for none.

    `now` is in seconds since the epoch.
    """
    reader = Reader(tomllib.loads(policy_text), now)
    steps = (reader.frame, reader.collect, reader.authenticate, reader.unpack, reader.apply)
    argument: Any = data
    for stage, step in zip(STAGES, steps, strict=True):
        try:
            argument = step(argument)
        except Rejected as error:
            return error.code, stage
    return "accepted", ""


def members(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive by name."""
    found: dict[str, bytes] = {}
    place = 0
    while True:
        header = data[place : place + 512]
        reject_if(len(header) < 512, "E103")
        if not any(header):
            break
        place += 512
        total = sum(header) - sum(header[148:156]) + 8 * 32
        reject_if(header[257:265] not in (b"ustar\x0000", b"ustar  \0"), "E103")
        reject_if(_number(header[148:156]) != total, "E103")
        size = _number(header[124:136])
        name = header[:100].partition(b"\0")[0].decode("latin-1")
        reject_if(header[156:157] != b"0" or any(header[157:257]) or any(header[345:500]), "E104")
        if any(header[:100].partition(b"\0")[2]) or not MEMBER.fullmatch(name) or name in found:
            raise Rejected("E104", name)
        end = place + size
        padded = end + -size % 512
        reject_if(padded > len(data), "E103")
        reject_if(any(data[end:padded]), "E105")
        found[name] = data[place:end]
        place = padded
    rest = data[place:]
    if len(rest) < 1024 or any(rest[512:1024]):
        raise Rejected("E103" if len(rest) < 1024 else "E105", "end of the archive")
    reject_if(len(rest) % 512 or len(rest) > 22 * 512 or any(rest), "E105")
    blobs = found.keys() - {"oci-layout", "index.json"}
    reject_if(not all(map(BLOB.fullmatch, blobs)), "E109")
    return found


def _number(field: bytes) -> int:
    if field[0] == 0x80:
        number = int.from_bytes(field[1:], "big")
        if number >= 8 * 2**30:
            return number
    reject_if(not re.fullmatch(rb" *[0-7]+[ \0]*", field), "E103")
    return int(field.strip(b" \0"), 8)


def sha256(data: bytes) -> str:
    """Return the digest of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Rejected("E107", "base64") from error
    reject_if(base64.b64encode(data).decode() != text, "E107")
    return data


class Key:
    """A key of a policy."""

    def __init__(self, stated: dict[str, Any], revoked: dict[str, Any]) -> None:
        try:
            self.public = serialization.load_pem_public_key(stated["public_key"].encode())
        except ValueError as error:
            raise Rejected("E310", "public key") from error
        der = self.public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.id = hashlib.sha256(der).hexdigest()
        self.holder = stated.get("holder") or self.id
        self.window = stated.get("not_before"), stated.get("not_after")
        self.is_revoked = self.id in revoked.get("keys", ())
        self.revoked_since = revoked.get("since", {}).get(self.id)

    def made(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key made a signature."""
        try:
            if isinstance(self.public, ed25519.Ed25519PublicKey):
                self.public.verify(signature, message)
            elif isinstance(self.public, ec.EllipticCurvePublicKey):
                self.public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True

    def why_not(self, now: float) -> str:
        """Return the code of what keeps its signatures from counting; empty if nothing does."""
        since = self.revoked_since
        if self.is_revoked or (since and since.timestamp() <= now):
            return "E312"
        first, last = (time and time.timestamp() for time in self.window)
        return "E311" if (first and now < first) or (last and now > last) else ""


class Reader:
    """One reading of a bundle under a policy."""

    def __init__(self, policy: dict[str, Any], now: float) -> None:
        self.policy, self.now = policy, now
        self.blobs: Blobs = {}
        self.reached: set[str] = set()
        self.root: dict[str, Any] = {}

    def frame(self, data: bytes) -> list[dict[str, Any]]:
        """Run step 1; return the entries of the attestations."""
        files = members(data)
        self.blobs = {
            "sha256:" + name[13:]: each for name, each in files.items() if BLOB.fullmatch(name)
        }
        documents = []
        for name, kind in (("oci-layout", "Layout"), ("index.json", "Entries")):
            reject_if(name not in files, "E110")
            reject_if(len(files[name]) > 4 * MIB, "E111")
            documents.append(_known(foreign(files[name], 32768), kind))
            reject_if(documents[0]["imageLayoutVersion"] != "1.0.0", "E112")
        entries = [_known(each, "Entry") for each in documents[1]["manifests"]]
        roots = [entry for entry in entries if entry["mediaType"] == INDEX]
        others = [entry for entry in entries if entry["mediaType"] == MANIFEST]
        reject_if(len(roots) != 1 or len(others) != len(entries) - 1, "E113")
        reject_if(len(others) > 256, "E111")
        reject_if(len({entry["digest"] for entry in entries}) < len(entries), "E113")
        limits, sizes = self.policy.get("limits", {}), [len(blob) for blob in self.blobs.values()]
        found = {"blob_bytes": max(sizes, default=0), "bundle_bytes": sum(sizes)}
        found["blobs"] = len(sizes)
        reject_if(any(found[name] > limit for name, limit in limits.items()), "E320")
        self.root = roots[0]
        return others

    def collect(self, entries: list[dict[str, Any]]) -> list[bytes]:
        """Run step 2; return the envelopes."""
        reject_if(self.root["digest"] in self.policy.get("revoked", {}).get("roots", ()), "E313")
        envelopes: list[bytes] = []
        total = 0
        for entry in entries:
            data = self._document(entry, 64 * 1024)
            manifest = foreign(data, 2048)
            reject_if(not fits(manifest, "Attestation"), "E106")
            layers, subject = manifest["layers"], manifest.get("subject", {"digest": ""})
            reject_if(subject["digest"] != self.root["digest"] or len(layers) != 1, "E114")
            self._document(manifest["config"], 2)
            envelope = self._document(layers[0], 4 * MIB)
            reject_if(envelope in envelopes, "E114")
            envelopes.append(envelope)
            total += len(data) + len(envelope)
            reject_if(total > 6 * MIB, "E111")
        return envelopes

    def authenticate(self, envelopes: list[bytes]) -> None:
        """Run steps 3 and 4."""
        revoked = self.policy.get("revoked", {})
        keys = [Key(each, revoked) for each in self.policy.get("keys", ())]
        threshold = self.policy.get("threshold", 1)
        reject_if(threshold > len({key.holder for key in keys}), "E309")
        reject_if(not envelopes, "E301")
        parsed = [_open_envelope(data) for data in envelopes]
        tried = sum(
            len(keys) * (64 * 1024 + len(message)) * len(signatures)
            for _, _, message, signatures in parsed
        )
        reject_if(tried > 128 * MIB, "E119")
        holders: set[str] = set()
        without_effect: list[Key] = []
        others = False
        for kind, payload, message, signatures in parsed:
            makers: list[Key] = []
            for key_id, signature in signatures:
                named = [key for key in keys if key.id == key_id]
                reject_if(named and not named[0].made(signature, message), "E303")
                makers += named or [key for key in keys if key.made(signature, message)]
            without_effect += [key for key in makers if key.why_not(self.now)]
            if counting := [key for key in makers if not key.why_not(self.now)]:
                if self._is_provenance(kind, payload):
                    holders |= {key.holder for key in counting}
                else:
                    others = True
        if len(holders) < threshold:
            ended = {key.why_not(self.now) for key in without_effect if key.holder not in holders}
            raise Rejected(min(ended, default="E304" if holders or others else "E302"), "signers")

    def _is_provenance(self, kind: str, payload: bytes) -> bool:
        """Return whether a statement about this root counts. Raise for one that must not be."""
        reject_if(kind != IN_TOTO, "E305")
        statement = _known(foreign(payload, 262144), "Statement")
        subjects = [_known(each, "Subject") for each in statement["subject"]]
        digests, kind = [each["digest"] for each in subjects], statement["predicateType"]
        is_known = statement["_type"] == "https://in-toto.io/Statement/v1"
        reject_if(digests != [{"sha256": self.root["digest"][7:]}] or not is_known, "E305")
        reject_if(kind not in (PROVENANCE, *SILENT), "E305")
        return kind == PROVENANCE

    def unpack(self, _: None) -> list[dict[str, Any]]:
        """Run steps 5 and 6; return the bundle manifests."""
        index = canonical(self._document(self.root, 4 * MIB), "RootIndex")
        stated = [index, *index["manifests"]]
        reject_if(not index["manifests"] or any("artifactType" in each for each in stated), "E113")
        manifests: list[dict[str, Any]] = []
        layers: dict[str, int] = {}
        sizes: dict[str, int] = {}
        present = [ref for ref in index["manifests"] if ref["digest"] in self.blobs]
        for reference in present or index["manifests"]:
            image = canonical(self._document(reference, 64 * MIB), "ImageManifest")
            manifest = _bundle_manifest(self._document(image["config"], 64 * MIB))
            names = [each["target"]["name"] for each in manifests]
            reject_if(manifest["target"]["name"] in names, "E116")
            reject_if(next(contradictions(manifest), None), "E118")
            _require_layers(image, manifest, sizes)
            manifests.append(manifest)
            layers |= {layer["digest"]: layer["size"] for layer in image["layers"]}
        reject_if(len({(each["name"], each["version"]) for each in manifests}) > 1, "E116")
        reject_if(self.blobs.keys() - self.reached - layers.keys(), "E204")
        for digest, size in sorted(layers.items()):
            self._sized({"digest": digest, "size": size})
        for digest in layers:
            reject_if(sha256(self.blobs[digest]) != digest, "E201")
        return manifests

    def apply(self, manifests: list[dict[str, Any]]) -> None:
        """Run step 7, without what depends on a host. The first rule that is violated counts."""
        policy, first = self.policy, manifests[0]
        reject_if(not fnmatch.fnmatchcase(first["name"], policy["name"]), "E306")
        least = policy.get("minimum_version")
        reject_if(least and _numbers(first["version"]) < _numbers(least), "E307")
        reject_if({*self.blobs} & {*policy.get("revoked", {}).get("blobs", ())}, "E314")
        order = ("fail", "pad", "split", "compile")
        furthest = order.index(policy.get("furthest_fallback", "split"))
        entries = [entry for each in manifests for entry in each["entry_points"].values()]
        for rule in (each for entry in entries for each in entry["out_of_profile"].values()):
            reject_if(order.index(rule["policy"]) > furthest, "E317")
        finite = any("numerics" in entry for entry in entries)
        reject_if(policy.get("numerics") == "ieee" and finite, "E336")

    def _sized(self, reference: dict[str, Any]) -> bytes:
        reject_if(reference["digest"] not in self.blobs, "E202")
        data = self.blobs[reference["digest"]]
        reject_if(len(data) != reference["size"], "E203")
        return data

    def _document(self, reference: dict[str, Any], limit: int) -> bytes:
        data = self._sized(reference)
        reject_if(len(data) > limit, "E111")
        reject_if(sha256(data) != reference["digest"], "E201")
        self.reached.add(reference["digest"])
        return data


def _known(value: Any, kind: str) -> Any:
    """Return the fields of a type, without unknown ones. Raises E106 where they are of others."""
    names = [field.partition(":")[0].rstrip("?") for field in STRUCTS[kind].split()]
    found = {name: value[name] for name in names if name in value} if isinstance(value, dict) else 0
    reject_if(not fits(found, kind), "E106")
    return found


def _open_envelope(data: bytes) -> tuple[str, bytes, bytes, list[tuple[str, bytes]]]:
    """Return type and payload, the signed message, and the signatures with their key ids."""
    envelope = _known(foreign(data, 2048), "Dsse")
    stated = [_known(each, "Signature") for each in envelope["signatures"]]
    payload, kind = _base64(envelope["payload"]), envelope["payloadType"]
    found = [(each.get("keyid", ""), _base64(each["sig"])) for each in stated]
    different = {signature for _, signature in found}
    reject_if(not 1 <= len(different) == len(found) <= 64, "E119")
    name = kind.encode()
    message = b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)
    return kind, payload, message, found


def _bundle_manifest(data: bytes) -> dict[str, Any]:
    try:
        version = foreign(data, len(data)).get("format_version")
    except (Rejected, AttributeError):
        version = None
    reject_if(isinstance(version, str) and version not in ("1.0", "1.1"), "E115")
    return canonical(data, "BundleManifest")


def _blobs_of(manifest: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for asset in manifest.get("assets", {}).values():
        yield from ((ref, TYPE + "asset.v1") for ref in asset["files"].values())
    for weights in manifest["weights"].values():
        yield from ((ref, TYPE + "weights.v1+safetensors") for ref in weights["blobs"])
    for entry in manifest["entry_points"].values():
        for profile in entry["profiles"]:
            yield profile["module"], TYPE + "module.v1+stablehlo"
            yield profile["fixture"], TYPE + "fixture.v1+safetensors"
            yield profile["executable"], TYPE + "executable.v1"
        if "symbolic" in entry:
            yield entry["symbolic"]["module"], TYPE + "module.v1+stablehlo"
    if "evidence" in manifest:
        yield manifest["evidence"], TYPE + "evidence.v1+json"


def _require_layers(image: dict[str, Any], manifest: dict[str, Any], sizes: dict[str, int]) -> None:
    found = [(ref["digest"], kind, ref["size"]) for ref, kind in _blobs_of(manifest)]
    wanted = {digest: (kind, size) for digest, kind, size in found}
    given = [(each["digest"], (each["mediaType"], each["size"])) for each in image["layers"]]
    reject_if(given != sorted(wanted.items()), "E205")
    reject_if(any(size != sizes.setdefault(digest, size) for digest, _, size in found), "E205")


def _numbers(version: str) -> list[int]:
    """Return the key by which versions without a suffix are ordered."""
    return ([*map(int, version.split("."))] + [0] * 4)[:4]
