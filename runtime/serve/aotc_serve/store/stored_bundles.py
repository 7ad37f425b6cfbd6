"""The bundles of a store: which blobs belong together, which were used last, and what goes first.

blobs/sha256/<digest>    a blob, whole
bundles/<root>.json      the index.json of a bundle; its time of change is that of its last use
partial/<digest>         what is being fetched, locked by who does
lock                     held, shared, by who adds; alone by who removes
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.digest import is_digest, sha256
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import (
    AttestationManifest,
    Entries,
    Entry,
    ImageManifest,
    RootIndex,
)
from aotc_runtime.system.bundle_files import MapOf, MappedBundle, map_file, read_file
from aotc_runtime.system.streamed_bundle import pass_file
from aotc_serve.oci.registry_client import PATIENT, RetryLimits
from aotc_serve.oci.registry_listing import index_of, layout_members
from aotc_serve.store.blob_files import BLOBS, BUNDLES, PARTIAL, BlobFiles

RECORD = ".json"
PATIENCE_SECONDS = 30.0


class StoredBundle(Struct, frozen=True):
    """A bundle of a store.

    `targets` are complete, `absent` are the others. `lost` counts removed attestations. `blobs` are
    sizes by digest of what is present, `documents` of the manifests of absent targets. `used` is
    the time of its last load or fetch, seconds since the epoch.
    """

    root: Entry
    attestations: tuple[Entry, ...]
    lost: int
    targets: tuple[str, ...]
    absent: tuple[str, ...]
    blobs: Mapping[str, int]
    documents: Mapping[str, int]
    used: float

    @property
    def size_bytes(self) -> int:
        """The size of all blobs."""
        return sum(self.blobs.values())


class Store:
    """A store in a folder, which is created when needed.

    Beyond `limit` bytes of blobs, the least recently used bundles are removed; None means the free
    space. `ca` has PEM certificates in place of the system's. `tries` limits retries.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        limit: int | None = None,
        ca: Path | None = None,
        tries: RetryLimits = PATIENT,
    ) -> None:
        self.files, self.limit = BlobFiles(Path(folder)), limit
        self.ca, self.tries = ca, tries

    @property
    def folder(self) -> Path:
        """The folder of the store."""
        return self.files.folder

    def __fspath__(self) -> str:
        return os.fspath(self.folder)

    def bundles(self) -> list[StoredBundle]:
        """Return the bundles, by last use, the latest first."""
        try:
            names = [path.name for path in (self.folder / BUNDLES).iterdir()]
        except OSError:
            return []
        roots = (f"sha256:{name.removesuffix(RECORD)}" for name in names if name.endswith(RECORD))
        found = (self.bundle(root) for root in roots if is_digest(root))
        return sorted((b for b in found if b is not None), key=lambda b: -b.used)

    def bundle(self, root: str, unread: Collection[str] = ()) -> StoredBundle | None:
        """Return the bundle with this root digest, or None; a target may lack `unread`."""
        path = self._record(root)
        try:
            data, used = read_file(path, limits.INDEX_BYTES_MAX), path.stat().st_mtime
            entries = canonical_json.decoder(Entries).decode(data).manifests
        except (OSError, ValueError, RecursionError):
            return None
        roots = [each for each in entries if each.mediaType == oci_layout.INDEX_TYPE]
        if [each.digest for each in roots] != [root]:
            return None
        attested = [each for each in entries if each is not roots[0]]
        return self._describe(roots[0], attested, used, unread)

    def _describe(
        self, root: Entry, attested: Collection[Entry], used: float, unread: Collection[str]
    ) -> StoredBundle | None:
        index = self.document(root, RootIndex, limits.INDEX_BYTES_MAX)
        if index is None:
            return None
        blobs = {root.digest: root.size}
        attestations = []
        for entry in attested:
            manifest = self.document(entry, AttestationManifest, limits.ATTESTATION_BYTES_MAX)
            needed = {} if manifest is None else sizes_of(entry, manifest.config, *manifest.layers)
            if needed and all(self.files.has(*each) for each in needed.items()):
                attestations.append(entry)
                blobs |= needed
        there, absent, documents = [], [], dict[str, int]()
        for reference in index.manifests:
            name = reference.annotations.get(oci_layout.TARGET_ANNOTATION, reference.digest)
            image = self.document(reference, ImageManifest, limits.MANIFEST_BYTES_MAX)
            needed = {} if image is None else sizes_of(reference, image.config, *image.layers)
            here = {digest: size for digest, size in needed.items() if digest not in unread}
            if needed and all(self.files.has(*each) for each in here.items()):
                there.append(name)
                blobs |= here
            else:
                absent.append(name)
                documents |= {} if image is None else sizes_of(reference, image.config)
        lost = len(attested) - len(attestations)
        return StoredBundle(
            root, tuple(attestations), lost, tuple(there), tuple(absent), blobs, documents, used
        )

    def document[T](
        self, reference: Entry | oci_layout.Descriptor, type_: type[T], most: int
    ) -> T | None:
        """Return a stored document whose digest matches; None otherwise."""
        data = self.data(reference, most)
        if data is None:
            return None
        try:
            return canonical_json.decode_foreign(data, type_, where="", marks=2**24)
        except AotcError:
            return None

    def data(self, reference: Entry | oci_layout.Descriptor, most: int) -> bytes | None:
        """Return the bytes of a small blob if its digest matches; None otherwise."""
        try:
            data = read_file(self.files.path(reference.digest), most)
        except OSError:
            return None
        return data if len(data) <= most and sha256(data) == reference.digest else None

    def documents(self, root: Entry) -> list[tuple[ImageManifest, bytes]] | None:
        """Image manifest and bundle manifest of each target; None if one is not there."""
        index = self.document(root, RootIndex, limits.INDEX_BYTES_MAX)
        found = []
        for reference in index.manifests if index else ():
            image = self.document(reference, ImageManifest, limits.MANIFEST_BYTES_MAX)
            config = image and self.data(image.config, limits.MANIFEST_BYTES_MAX)
            if not image or not config:
                return None
            found.append((image, config))
        return found or None

    def source(
        self, root: str, name: str, kind: MapOf = mmap.mmap, unread: Collection[str] = ()
    ) -> MappedBundle | None:
        """Return the bundle with this root digest, opened with framing checked only.

        None if it is not there. `name` is for messages, `kind` makes the maps of its files, and
        `unread` is as of `bundle`.
        """
        found = self.bundle(root, unread)
        if found is None:
            return None
        with suppress(OSError):  # a store that cannot be written forgets nothing
            os.utime(self._record(root))
        members = layout_members(found.root, found.attestations)
        for digest in found.blobs:
            with suppress(OSError):  # removed meanwhile: verification says that it is missing
                path = self.files.path(digest)
                members[oci_layout.BLOB_FOLDER + path.name] = map_file(path, kind)
        return MappedBundle(name, members)

    def keep(self, root: Entry, attestations: Collection[Entry]) -> None:
        """Record a bundle whose blobs are stored, and keep its earlier attestations."""
        before = self.bundle(root.digest)
        joined = {entry.digest: entry for entry in attestations}
        if before is not None:
            joined |= {entry.digest: entry for entry in before.attestations}
        data = index_of(root, joined.values())
        self.files.write_record(self._record(root.digest).name, data)

    def size_bytes(self) -> int:
        """Return the size of all blobs."""
        return sum(size for _, size in self._all(BLOBS))

    def prune(
        self, limit: int, keep: Collection[str] = (), patience: float = PATIENCE_SECONDS
    ) -> tuple[list[StoredBundle], int] | None:
        """Remove the least recently used bundles beyond `limit` bytes, and unreferenced blobs.

        Returns them and the number of bytes, or None if the store is in use. Loaded bundles stay
        loaded; roots in `keep` stay.
        """
        with self.files.alone(patience) as alone:
            if not alone:
                return None
            gone: list[StoredBundle] = []
            left = self.bundles()
            candidates = [each for each in reversed(left) if each.root.digest not in keep]
            while candidates and _size(left) > limit:
                gone.append(candidates.pop(0))
                left.remove(gone[-1])
            for each in gone:
                self.files.remove(self._record(each.root.digest))
            reached = {digest for each in left for digest in {**each.blobs, **each.documents}}
            removed = 0
            for folder in (BLOBS, PARTIAL):
                for path, _ in self._all(folder):
                    if folder == PARTIAL or f"sha256:{path.name}" not in reached:
                        removed += self.files.remove(path)
            return gone, removed

    def verify(self) -> Iterator[tuple[str, bool]]:
        """Yield every blob, and whether it matches its digest; remove others (AOTC-E560)."""
        for path, _ in self._all(BLOBS):
            digest = f"sha256:{path.name}"
            try:
                is_whole = sha256(pass_file(path)) == digest
            except FileNotFoundError:
                continue
            except OSError:
                is_whole = False
            if not is_whole:
                self.files.remove(path)
            yield digest, is_whole

    def _record(self, root: str) -> Path:
        return self.folder / BUNDLES / f"{root.removeprefix('sha256:')}{RECORD}"

    def _all(self, folder: str) -> list[tuple[Path, int]]:
        found = []
        with suppress(OSError), os.scandir(self.folder / folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    found.append((Path(entry.path), entry.stat(follow_symlinks=False).st_size))
        return sorted(found)


def sizes_of(*references: Entry | oci_layout.Descriptor) -> dict[str, int]:
    """Their sizes by digest."""
    return {each.digest: each.size for each in references}


def _size(bundles: Collection[StoredBundle]) -> int:
    """Return the bytes of all blobs that bundles refer to, each counted once."""
    blobs: dict[str, int] = {}
    for each in bundles:
        blobs |= each.blobs
    return sum(blobs.values())
