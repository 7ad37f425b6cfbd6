"""A second reader of bundles, from docs/reference alone: archive, documents, signatures, policy.

It shares no code with `aotc_runtime` and was written from bundle-format.md and trust-policy.md. It
covers steps 1 to 7 of trust-policy.md, without Sigstore identities, timestamps, certificates, rules
on builds, and what depends on a host.
"""

import base64
import fnmatch
import hashlib
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from .consistency import check
from .documents import Rejected, canonical, fits, foreign, known, reject_if, rejecting

MIB = 2**20
MEMBER = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")
BLOB = re.compile(r"blobs/sha256/[0-9a-f]{64}")
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
STAGES = ("framing", "attestations", "signatures", "digests", "policy")
PROVENANCE = "https://slsa.dev/provenance/v1"
SILENT = ("https://aotc.dev/certificate/v1", "https://cyclonedx.org/bom")
IN_TOTO = "application/vnd.in-toto+json"
ROLES = {"module": "+stablehlo", "fixture": "+safetensors", "executable": ""}
TYPE = "application/vnd.aotc."


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
            return error.args[0], stage
    return "accepted", ""


def members(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive by name."""
    found: dict[str, bytes] = {}
    place = 0
    while any(header := data[place : place + 512]):
        reject_if(len(header) < 512, "E103")
        total = sum(header) - sum(header[148:156]) + 8 * 32
        reject_if(header[257:265] not in (b"ustar\x0000", b"ustar  \0"), "E103")
        reject_if(_number(header[148:156]) != total, "E103")
        start, size = place + 512, _number(header[124:136])
        end = start + size
        place = end + -size % 512
        reject_if(header[156:157] != b"0" or any(header[157:257]) or any(header[345:500]), "E104")
        raw, _, after = header[:100].partition(b"\0")
        name = raw.decode("latin-1")
        reject_if(any(after) or not MEMBER.fullmatch(name) or name in found, "E104")
        reject_if(place > len(data), "E103")
        reject_if(any(data[end:place]), "E105")
        found[name] = data[start:end]
    rest = data[place:]
    reject_if(len(rest) < 1024, "E103")
    reject_if(any(rest) or len(rest) % 512 or len(rest) > 22 * 512, "E105")
    blobs = found.keys() - {"oci-layout", "index.json"}
    reject_if(not all(map(BLOB.fullmatch, blobs)), "E109")
    return found


def _number(field: bytes) -> int:
    if field[0] == 0x80 and (number := int.from_bytes(field[1:])) >= 8 * 2**30:
        return number
    reject_if(not re.fullmatch(rb" *[0-7]+[ \0]*", field), "E103")
    return int(field.strip(b" \0"), 8)


def sha256(data: bytes) -> str:
    """Return the digest of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _base64(text: str) -> bytes:
    with rejecting("E107"):
        data = base64.b64decode(text, validate=True)
    reject_if(base64.b64encode(data).decode() != text, "E107")
    return data


class Key:
    """A key of a policy. `ended` is the code of what keeps its signatures from counting."""

    def __init__(self, stated: dict[str, Any], revoked: dict[str, Any], now: float) -> None:
        with rejecting("E310"):
            self.public = serialization.load_pem_public_key(stated["public_key"].encode())
        der = self.public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(der).hexdigest()
        self.holder = stated.get("holder") or self.id
        self.ended = ""
        for time, sign in (stated.get("not_before"), 1), (stated.get("not_after"), -1):
            if time and sign * now < sign * time.timestamp():
                self.ended = "E311"
        since = revoked.get("since", {}).get(self.id)
        if self.id in revoked.get("keys", ()) or (since and since.timestamp() <= now):
            self.ended = "E312"

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


class Reader:
    """One reading of a bundle under a policy."""

    def __init__(self, policy: dict[str, Any], now: float) -> None:
        self.policy, self.now = policy, now
        self.blobs: dict[str, bytes] = {}
        self.reached: set[str] = set()
        self.root: dict[str, Any] = {}

    def frame(self, data: bytes) -> list[dict[str, Any]]:
        """Run step 1; return the entries of the attestations."""
        files = members(data)
        self.blobs = {f"sha256:{name[13:]}": files[name] for name in files if "/" in name}
        for name, kind in (("oci-layout", "Layout"), ("index.json", "Entries")):
            reject_if(name not in files, "E110")
            reject_if(len(files[name]) > 4 * MIB, "E111")
            document = known(foreign(files[name], 32768), kind)
            reject_if(document.get("imageLayoutVersion", "1.0.0") != "1.0.0", "E112")
        entries = [known(each, "Entry") for each in document["manifests"]]
        roots = [entry for entry in entries if entry["mediaType"] == INDEX]
        others = [entry for entry in entries if entry["mediaType"] == MANIFEST]
        reject_if(len(roots) != 1 or len(others) != len(entries) - 1, "E113")
        reject_if(len(others) > 256, "E111")
        reject_if(len({entry["digest"] for entry in entries}) < len(entries), "E113")
        sizes = [*map(len, self.blobs.values())]
        found = {"blob_bytes": max(sizes, default=0), "bundle_bytes": sum(sizes)}
        found["blobs"] = len(sizes)
        limits = self.policy.get("limits", {})
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
        keys = [Key(each, revoked, self.now) for each in self.policy.get("keys", ())]
        threshold = self.policy.get("threshold", 1)
        reject_if(threshold > len({key.holder for key in keys}), "E309")
        reject_if(not envelopes, "E301")
        parsed = [_open_envelope(data) for data in envelopes]
        tried = sum((2**16 + len(message)) * len(signed) for _, _, message, signed in parsed)
        reject_if(len(keys) * tried > 128 * MIB, "E119")
        holders: set[str] = set()
        signers: list[Key] = []
        for kind, payload, message, signatures in parsed:
            makers: list[Key] = []
            for key_id, signature in signatures:
                named = [key for key in keys if key.id == key_id]
                reject_if(named and not named[0].made(signature, message), "E303")
                makers += named or [key for key in keys if key.made(signature, message)]
            signers += makers
            counting = {key.holder for key in makers if not key.ended}
            if counting and self._is_provenance(kind, payload):
                holders |= counting
        ended = {key.ended for key in signers if key.ended and key.holder not in holders}
        too_few = "E302" if all(key.ended for key in signers) else "E304"
        reject_if(len(holders) < threshold, min(ended, default=too_few))

    def _is_provenance(self, kind: str, payload: bytes) -> bool:
        """Return whether a statement about this root counts. Raise for one that must not be."""
        reject_if(kind != IN_TOTO, "E305")
        statement = known(foreign(payload, 262144), "Statement")
        subjects = [known(each, "Subject") for each in statement["subject"]]
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
            check(manifest)
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


def _open_envelope(data: bytes) -> tuple[str, bytes, bytes, list[tuple[str, bytes]]]:
    """Return type and payload, the signed message, and the signatures with their key ids."""
    envelope = known(foreign(data, 2048), "Dsse")
    stated = [known(each, "Signature") for each in envelope["signatures"]]
    payload, kind = _base64(envelope["payload"]), envelope["payloadType"]
    found = [(each.get("keyid", ""), _base64(each["sig"])) for each in stated]
    different = {signature for _, signature in found}
    reject_if(not 1 <= len(different) == len(found) <= 64, "E119")
    name = kind.encode()
    message = b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)
    return kind, payload, message, found


def _bundle_manifest(data: bytes) -> dict[str, Any]:
    version = None
    with suppress(Rejected, AttributeError):
        version = foreign(data, len(data)).get("format_version")
    reject_if(isinstance(version, str) and version not in ("1.0", "1.1"), "E115")
    return canonical(data, "BundleManifest")


def _blobs_of(manifest: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for asset in manifest.get("assets", {}).values():
        yield from ((ref, TYPE + "asset.v1") for ref in asset["files"].values())
    for weights in manifest["weights"].values():
        yield from ((ref, TYPE + "weights.v1+safetensors") for ref in weights["blobs"])
    for entry in manifest["entry_points"].values():
        for profile in entry["profiles"]:
            for role, ending in ROLES.items():
                yield profile[role], f"{TYPE}{role}.v1{ending}"
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
