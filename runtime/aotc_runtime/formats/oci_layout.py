"""OCI image layout 1.1: the documents of a bundle.

https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md, image-index.md,
manifest.md. Documents below the root digest are canonical JSON and hold nothing but these fields,
with these media types; index.json may be rewritten by registries' tools, so of it only `Entry` is
read.
"""

from typing import Final, Literal

from msgspec import Struct

from aotc_runtime.schema.bundle_manifest import Digest, Size

INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY_BLOB = b"{}"

BUNDLE_TYPE: Final = "application/vnd.aotc.bundle.v1"
CONFIG_TYPE: Final = "application/vnd.aotc.manifest.v1+json"
EXECUTABLE_TYPE = "application/vnd.aotc.executable.v1"
MODULE_TYPE = "application/vnd.aotc.module.v1+stablehlo"
WEIGHTS_TYPE = "application/vnd.aotc.weights.v1+safetensors"
FIXTURE_TYPE = "application/vnd.aotc.fixture.v1+safetensors"
EVIDENCE_TYPE = "application/vnd.aotc.evidence.v1+json"
ASSET_TYPE = "application/vnd.aotc.asset.v1"
ATTESTATION_TYPE: Final = "application/vnd.in-toto+json"
SIGSTORE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"

TARGET_ANNOTATION = "vnd.aotc.target"
"""The annotation of a target's image manifest in the root index: its name. Decides nothing."""

NAME_ANNOTATION = "org.opencontainers.image.ref.name"
"""The annotation by which tools choose an entry of index.json. Decides nothing."""

LAYOUT_FILE = "oci-layout"
INDEX_FILE = "index.json"
BLOB_FOLDER = "blobs/sha256/"
LAYOUT_VERSION = "1.0.0"


class Layout(Struct, frozen=True):
    """The file `oci-layout`."""

    imageLayoutVersion: str


class Platform(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The platform of an image manifest; variants as Go names amd64 levels: v2, v3, v4."""

    architecture: str
    os: str
    variant: str = ""


class Descriptor(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A reference to a blob of `size` bytes."""

    mediaType: str
    digest: Digest
    size: Size
    artifactType: str = ""
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class Entry(Struct, frozen=True, kw_only=True):
    """An entry of index.json; other tools may add or leave out other fields."""

    mediaType: str
    digest: Digest
    size: Size


class Entries(Struct, frozen=True, kw_only=True):
    """The fields of index.json."""

    schemaVersion: Literal[2]
    manifests: tuple[Entry, ...]


class _Document(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The fields of every image index and image manifest."""

    schemaVersion: Literal[2]
    artifactType: str = ""
    annotations: dict[str, str] = {}


class Index(_Document, frozen=True):
    """An image index: index.json as `aotc` writes it."""

    mediaType: Literal["application/vnd.oci.image.index.v1+json"]
    manifests: tuple[Descriptor, ...]


class ImageDescriptor(Descriptor, frozen=True):
    """A reference to the image manifest of a target."""

    mediaType: Literal["application/vnd.oci.image.manifest.v1+json"]


class RootIndex(_Document, frozen=True):
    """The root of a bundle: one image manifest per target."""

    mediaType: Literal["application/vnd.oci.image.index.v1+json"]
    manifests: tuple[ImageDescriptor, ...]


class ConfigDescriptor(Descriptor, frozen=True):
    """A reference to a bundle manifest."""

    mediaType: Literal["application/vnd.aotc.manifest.v1+json"]


class ImageManifest(_Document, frozen=True):
    """An image manifest: one target of a bundle."""

    mediaType: Literal["application/vnd.oci.image.manifest.v1+json"]
    artifactType: Literal["application/vnd.aotc.bundle.v1"]
    config: ConfigDescriptor
    layers: tuple[Descriptor, ...]


class EnvelopeDescriptor(Descriptor, frozen=True):
    """A reference to a DSSE envelope."""

    mediaType: Literal["application/vnd.in-toto+json"]


class AttestationManifest(_Document, frozen=True):
    """An image manifest that attaches an envelope to its subject."""

    mediaType: Literal["application/vnd.oci.image.manifest.v1+json"]
    config: Descriptor
    layers: tuple[EnvelopeDescriptor, ...]
    subject: Descriptor | None = None
