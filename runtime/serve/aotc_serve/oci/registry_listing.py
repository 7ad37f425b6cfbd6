"""Documents and attestations of a bundle in a registry."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlencode

from msgspec import Struct

from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.digest import is_digest, sha256
from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.formats import oci_layout, oci_referrers
from aotc_runtime.formats.in_toto import PROVENANCE_TYPE
from aotc_runtime.formats.oci_layout import (
    EMPTY_BLOB,
    SIGSTORE_TYPE,
    AttestationManifest,
    Descriptor,
    Entries,
    Entry,
    ImageManifest,
    RootIndex,
)
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import MappedBundle
from aotc_serve.oci.registry_blobs import fetch_blob
from aotc_serve.oci.registry_client import INVALID, Repository, Stored
from aotc_serve.oci.sigstore_bundles import PREDICATE, bundle_in, read_bundle, signatures_in

CANDIDATES_MAX = 4 * limits.ATTESTATIONS_MAX
"""Maximum number of referrers that are read, unrelated ones included."""

DOCUMENTS_BYTES_MAX = 4 * limits.MANIFEST_BYTES_MAX
"""Image manifests and bundle manifests of all targets: they are held in memory, and without a
policy nobody has vouched for them."""

PAGES_MAX = 64
TAGS_A_PAGE = 1000
TAGS_BYTES_MAX = 4 * 2**20

_NEXT = re.compile(r"<([^>]{1,2048})>\s*;\s*rel=\"?next\"?")


class Target(Struct, frozen=True):
    """A complete target, under the name in its manifest."""

    name: str
    reference: Descriptor
    image: ImageManifest


class Listing(Struct, frozen=True):
    """A bundle in a repository.

    `documents` are verified bytes by digest: root index, image and bundle manifests, attestations.
    `absent` are names of targets that are not there.
    """

    root: Entry
    attestations: tuple[Entry, ...]
    targets: tuple[Target, ...]
    absent: tuple[str, ...]
    documents: Mapping[str, bytes]

    def layers(self) -> dict[str, Descriptor]:
        """Return blobs besides the documents, by digest: executables, weights and the like."""
        found = {layer.digest: layer for target in self.targets for layer in target.image.layers}
        return {digest: found[digest] for digest in sorted(found)}

    def only(self, names: tuple[str, ...]) -> Listing:
        """Return the listing with these targets alone, or all if none is named (AOTC-E505)."""
        if not names:
            return self
        there = {target.name for target in self.targets}
        for name in names:
            if name not in there:
                expected = f"one of: {', '.join(sorted(there))}"
                hint = "choose one of these targets"
                raise refusal("AOTC-E505", self.root.digest, name, expected=expected, hint=hint)
        left = tuple(target for target in self.targets if target.name in names)
        gone = [target for target in self.targets if target.name not in names]
        dropped = {d for t in gone for d in (t.reference.digest, t.image.config.digest)}
        dropped -= {t.image.config.digest for t in left}
        kept = {d: data for d, data in self.documents.items() if d not in dropped}
        absent = (*self.absent, *(target.name for target in gone))
        return Listing(self.root, self.attestations, left, absent, kept)

    def as_bundle(self, name: str) -> MappedBundle:
        """Return the documents and attestations as a bundle, which has none of the layers."""
        members = layout_members(self.root, self.attestations)
        for digest, data in self.documents.items():
            members[oci_layout.BLOB_FOLDER + digest.removeprefix("sha256:")] = memoryview(data)
        return MappedBundle(name, members)


def layout_members(root: Entry, attestations: Collection[Entry]) -> dict[str, memoryview]:
    """Return the files of a layout beside its blobs, by name."""
    layout = canonical_json.encode(oci_layout.Layout(oci_layout.LAYOUT_VERSION))
    index = index_of(root, attestations)
    return {oci_layout.LAYOUT_FILE: memoryview(layout), oci_layout.INDEX_FILE: memoryview(index)}


def index_of(root: Entry, attestations: Collection[Entry]) -> bytes:
    """Return the index.json of a bundle."""
    return canonical_json.encode(Entries(schemaVersion=2, manifests=(root, *attestations)))


class Memory(bytearray):
    """A `Sink` for a small blob."""

    size_written, restart, write = bytearray.__len__, bytearray.clear, bytearray.extend

    def digest(self) -> str:
        """Return the digest of what was written."""
        return sha256(self)


def resolve(repository: Repository) -> Stored:
    """Return the reference's root index, resolved once, since a tag may move (AOTC-E774)."""
    name = repository.place.name
    found = repository.manifest(name, limits.INDEX_BYTES_MAX) if name else None
    if found is None:
        asked = name or "a reference without tag or digest"
        raise refusal("AOTC-E774", str(repository.place), asked)
    if b'"manifests":' not in found.data:  # An attestation, ModelPack's manifest, or a web page.
        raise refusal("AOTC-E774", str(repository.place), name, cause="manifest-is-no-bundle")
    return found


def fetch_attestations(
    repository: Repository, root: Stored, policy: TrustPolicy | None = None
) -> Listing:
    """Fetch the attestations of a root, and nothing else of the bundle.

    They include provenance in Sigstore bundles of other tools, by the kinds of signers that
    `policy` names. Raises RegistryError, IntegrityError, BundleFormatError.
    """
    entry = Entry(mediaType=oci_layout.INDEX_TYPE, digest=root.digest, size=len(root.data))
    found = _Attestations(repository, entry)
    found.documents[root.digest] = root.data
    found.fetch(policy)
    return Listing(entry, tuple(found.entries), (), (), found.documents)


def fetch_documents(repository: Repository, attested: Listing) -> Listing:
    """Fetch the manifests of the bundle with this root and these attestations.

    Raises RegistryError, IntegrityError, BundleFormatError.
    """
    root, documents = attested.root.digest, dict(attested.documents)
    where = f"{repository.where}@{root}"
    index = canonical_json.decode(documents[root], RootIndex, where=f"{where} root index")
    targets, absent, total = [], [], 0
    for reference in index.manifests:
        stored = repository.manifest(reference.digest)
        if stored is None:
            absent.append(reference.annotations.get(oci_layout.TARGET_ANNOTATION, reference.digest))
            continue
        what = f"{where} image manifest {reference.digest[7:19]}"
        image = canonical_json.decode(stored.data, ImageManifest, where=what)
        total += len(stored.data) + image.config.size
        if total > DOCUMENTS_BYTES_MAX:
            expected = f"at most {DOCUMENTS_BYTES_MAX} bytes"
            raise refusal("AOTC-E111", f"{where} manifests", "more bytes", expected=expected)
        config = small(repository, image.config, limits.MANIFEST_BYTES_MAX)
        documents |= {reference.digest: stored.data, image.config.digest: config}
        targets.append(Target(target_name(config, what), reference, image))
    return Listing(attested.root, attested.attestations, tuple(targets), tuple(absent), documents)


class _Target(Struct):
    name: str


class _Named(Struct):
    target: _Target


def target_name(config: bytes, where: str) -> str:
    """Return the target's name in a bundle manifest. Raises BundleFormatError (AOTC-E101)."""
    try:
        return canonical_json.decoder(_Named).decode(config).target.name
    except (ValueError, RecursionError) as error:
        raise refusal("AOTC-E101", where, str(error), expected="a bundle manifest") from error


def small(repository: Repository, reference: Descriptor | Entry, most: int) -> bytes:
    """Return a blob in memory. Raises BundleFormatError (AOTC-E111) if it is to be larger."""
    if reference.size > most:
        where = f"{repository.where}@{reference.digest}"
        expected = f"at most {most} bytes"
        raise refusal("AOTC-E111", where, f"{reference.size} bytes", expected=expected)
    sink = Memory()
    fetch_blob(repository, reference.digest, reference.size, sink)
    return bytes(sink)


class _Attestations:
    """Attestations of a root that readers of bundles take; others' attachments are left out."""

    def __init__(self, repository: Repository, root: Entry) -> None:
        self._repository, self._root = repository, root
        self.documents: dict[str, bytes] = {}
        self.entries: list[Entry] = []
        self._number = self._total = 0
        self._signatures: set[tuple[str, str, bytes]] = set()

    def fetch(self, policy: TrustPolicy | None) -> None:
        root, others = self._root.digest, list[Entry]()
        for candidate in referrers(self._repository, root):
            stored = self._repository.manifest(candidate, limits.ATTESTATION_BYTES_MAX)
            manifest = None if stored is None else _manifest(stored.data, root)
            if stored is not None and manifest is not None:
                self._add(stored.data, manifest)
            elif stored is not None and policy and (bundle := bundle_in(stored.data, root)):
                others.append(bundle)
        # What both forms have is taken in ours, so that a bundle comes back as it was pushed.
        for bundle in others:
            self._count(bundle.size)
            data = small(self._repository, bundle, limits.ENVELOPE_BYTES_MAX)
            try:
                read = read_bundle(data, f"{self._repository.where}@{bundle.digest}")
            except (ValueError, RecursionError, AotcError):
                continue
            counts = policy is not None and (policy.keys if read.by_key else policy.identities)
            known = signatures_in(read.envelope) <= self._signatures
            if counts and read.is_about(root) and not known:
                kind = oci_layout.ATTESTATION_TYPE
                made = oci_referrers.referrer_of(read.envelope, kind, self._root)
                self.documents |= {sha256(each): each for each in (read.envelope, EMPTY_BLOB)}
                manifest = _manifest(made, root)
                assert manifest is not None, "it was made here"
                self._add(made, manifest)

    def _count(self, size: int) -> None:
        """Raise BundleFormatError (AOTC-E111) before more is fetched than readers take."""
        self._number, self._total = self._number + 1, self._total + size
        if self._number > limits.ATTESTATIONS_MAX or self._total > limits.ATTESTATIONS_BYTES_MAX:
            expected = f"at most {limits.ATTESTATIONS_MAX}, {limits.ATTESTATIONS_BYTES_MAX} bytes"
            where = f"{self._repository.where}@{self._root.digest} attestations"
            raise refusal("AOTC-E111", where, "more", expected=expected)

    def _add(self, data: bytes, manifest: AttestationManifest) -> None:
        self._count(len(data) + manifest.layers[0].size)
        for each in (manifest.config, manifest.layers[0]):
            if each.digest not in self.documents:
                read = small(self._repository, each, limits.ENVELOPE_BYTES_MAX)
                self.documents[each.digest] = read
        self._signatures |= signatures_in(self.documents[manifest.layers[0].digest])
        self.documents[sha256(data)] = data
        entry = Entry(mediaType=oci_layout.MANIFEST_TYPE, digest=sha256(data), size=len(data))
        self.entries.append(entry)


def _manifest(data: bytes, root: str) -> AttestationManifest | None:
    """Return an attestation that a bundle may have; None for other documents."""
    try:
        manifest = decode_foreign(
            data, AttestationManifest, where="", marks=limits.ATTESTATION_MARKS_MAX
        )
    except AotcError:
        return None
    is_ours = manifest.subject is not None and manifest.subject.digest == root
    fits = len(manifest.layers) == 1 and manifest.config.size <= len(oci_layout.EMPTY_BLOB)
    return manifest if is_ours and fits else None


class _Referrer(Struct, frozen=True):
    mediaType: str
    digest: str
    artifactType: str | None = None
    annotations: dict[str, str] | None = None

    @property
    def may_count(self) -> bool:
        """Return whether it is an attestation, or provenance in Sigstore's form."""
        if self.artifactType == SIGSTORE_TYPE:
            return (self.annotations or {}).get(PREDICATE, PROVENANCE_TYPE) == PROVENANCE_TYPE
        return self.artifactType in (None, "", oci_layout.ATTESTATION_TYPE)


class _Referrers(Struct, frozen=True):
    """The list of referrers; some registries write an empty one as null."""

    manifests: tuple[_Referrer, ...] | None


class _Tags(Struct, frozen=True):
    tags: tuple[str, ...] | None = None


def referrers(repository: Repository, root: str) -> list[str]:
    """Return unverified digests of a root's possible attestations, each once.

    In the order of the index that stands in for the referrers API, and after these, what else a
    registry's API has; where it has none, by tags as skopeo copies them.
    """
    stand_in = repository.manifest(root.replace(":", "-"), limits.INDEX_BYTES_MAX)
    found: dict[str, None] = {}
    if stand_in is not None:
        found |= dict.fromkeys(_parse_listing(stand_in.data, repository))
    path, more = f"referrers/{root}", set[str]()
    for number in range(PAGES_MAX):
        answer = repository.document(path, limits.INDEX_BYTES_MAX)
        if answer is None and number == 0:
            of_root = tags(repository, root.replace(":", "-") + ".")
            for tag in of_root[: CANDIDATES_MAX + 1]:
                stored = repository.manifest(tag, limits.ATTESTATION_BYTES_MAX)
                more |= set() if stored is None else {stored.digest}
        if answer is None:
            break
        more.update(_parse_listing(answer[0], repository))
        path = _next(answer[1], "referrers/")
        if not path or len(more) > CANDIDATES_MAX:
            break
    found |= dict.fromkeys(sorted(more - found.keys()))
    if len(found) > CANDIDATES_MAX:
        where, expected = f"{repository.where}@{root}", f"at most {CANDIDATES_MAX} referrers"
        raise refusal("AOTC-E775", where, "more", cause=INVALID, expected=expected)
    return list(found)


def _parse_listing(data: bytes, repository: Repository) -> Iterator[str]:
    try:
        listed = canonical_json.decoder(_Referrers).decode(data).manifests or ()
    except (ValueError, RecursionError) as error:
        where = f"{repository.where} referrers"
        raise refusal("AOTC-E775", where, str(error), cause=INVALID) from error
    for each in listed:
        if each.may_count and each.mediaType == oci_layout.MANIFEST_TYPE and is_digest(each.digest):
            yield each.digest


def tags(repository: Repository, prefix: str) -> list[str]:
    """Tags of the repository that begin so, as far as it lists them."""
    found: list[str] = []
    path = f"tags/list?{urlencode({'n': TAGS_A_PAGE})}"
    for _ in range(PAGES_MAX):
        answer = repository.document(path, TAGS_BYTES_MAX)
        if answer is None:
            break
        try:
            listed = canonical_json.decoder(_Tags).decode(answer[0]).tags or ()
        except (ValueError, RecursionError) as error:
            where = f"{repository.where} tags"
            raise refusal("AOTC-E775", where, str(error), cause=INVALID) from error
        found += (tag for tag in listed if tag.startswith(prefix) and len(tag) <= 128)
        path = _next(answer[1], "tags/list")
        if not path or len(found) > CANDIDATES_MAX:
            break
    return found


def _next(link: str, path: str) -> str:
    """Return the link to the next page below the repository, or ""."""
    found = _NEXT.search(link)
    _, is_there, rest = (found[1] if found else "").partition(f"/{path}")
    return f"{path}{rest}" if is_there else ""
