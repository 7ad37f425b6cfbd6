"""OCI image layout 1.1: the documents of a bundle and the protocol through which blobs are read.

https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md, image-index.md,
manifest.md. Documents below the root digest are canonical JSON and hold nothing but these fields;
index.json may be rewritten by registries' tools, so of it only `Entry` is read.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from aotc_runtime import digest
from aotc_runtime.schema.manifest import Digest, Size

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY_BLOB = b"{}"

BUNDLE_TYPE = "application/vnd.aotc.bundle.v1"
CONFIG_TYPE = "application/vnd.aotc.manifest.v1+json"
EXECUTABLE_TYPE = "application/vnd.aotc.executable.v1"
MODULE_TYPE = "application/vnd.aotc.module.v1+stablehlo"
WEIGHTS_TYPE = "application/vnd.aotc.weights.v1+safetensors"
FIXTURE_TYPE = "application/vnd.aotc.fixture.v1+safetensors"
ATTESTATION_TYPE = "application/vnd.in-toto+json"

LAYOUT_FILE = "oci-layout"
INDEX_FILE = "index.json"
BLOB_FOLDER = "blobs/sha256/"
LAYOUT_VERSION = "1.0.0"


class Layout(Struct, frozen=True):
    """The file `oci-layout`."""

    imageLayoutVersion: str


class Platform(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What an image manifest is for; variant as Go names amd64 levels: v2, v3, v4."""

    architecture: str
    os: str
    variant: str = ""


class Descriptor(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A reference to a blob. size: bytes."""

    mediaType: str
    digest: Digest
    size: Size
    artifactType: str = ""
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class Entry(Struct, frozen=True, kw_only=True):
    """What is read of an entry of index.json; other tools may add to it or leave out the rest."""

    mediaType: str
    digest: Digest
    size: Size


class Entries(Struct, frozen=True, kw_only=True):
    """What is read of index.json."""

    schemaVersion: int
    manifests: tuple[Entry, ...]


class Index(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An image index: the root of a bundle, and index.json as `aotc` writes it."""

    schemaVersion: int
    mediaType: str = ""
    artifactType: str = ""
    manifests: tuple[Descriptor, ...]
    annotations: dict[str, str] = {}


class ImageManifest(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """An image manifest: one target of a bundle, or an attestation (with a subject)."""

    schemaVersion: int
    mediaType: str = ""
    artifactType: str = ""
    config: Descriptor
    layers: tuple[Descriptor, ...]
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}


class BlobSource(Protocol):
    """An opened bundle: names and bytes, none of them believed yet."""

    @property
    def name(self) -> str:
        """The bundle's path, for messages."""

    def file(self, name: str) -> memoryview | None:
        """The bytes of `oci-layout` or `index.json`."""

    def blob(self, digest: str) -> memoryview | None:
        """The bytes stored under a digest; None if there are none."""

    def digests(self) -> frozenset[str]:
        """Under which digests blobs are stored."""


def descriptor(data: bytes, media_type: str, **extra: Any) -> Descriptor:
    """A reference to these bytes."""
    return Descriptor(mediaType=media_type, digest=digest.sha256(data), size=len(data), **extra)
