"""OCI image layout 1.1: the documents of a bundle and the protocol through which blobs are read.

https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md, image-index.md,
manifest.md. Documents below the root digest are canonical JSON and hold nothing but these fields;
index.json may be rewritten by registries' tools and is read leniently.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from aotc_runtime import digest
from aotc_runtime.errors import BundleFormatError, Finding
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


class Layout(Struct, frozen=True, forbid_unknown_fields=True):
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


class Index(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An image index: the root of a bundle, and index.json."""

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


def decode_foreign[T](data: bytes | memoryview, type_: type[T], *, where: str) -> T:
    """Read JSON that other tools may have rewritten: any spelling, but no key twice.

    Raises BundleFormatError (AOTC-E106).
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key stands twice in an object")
        return dict(pairs)

    try:
        json.loads(bytes(data), object_pairs_hook=unique)
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BundleFormatError(
            Finding(
                code="AOTC-E106",
                where=where,
                expected=f"a valid OCI {type_.__name__}",
                found=str(error),
                hint="the bundle is damaged: fetch or build it again",
            )
        ) from error


def descriptor(data: bytes, media_type: str, **extra: Any) -> Descriptor:
    """A reference to these bytes."""
    return Descriptor(mediaType=media_type, digest=digest.sha256(data), size=len(data), **extra)
