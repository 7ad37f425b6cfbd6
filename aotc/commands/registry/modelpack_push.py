"""`aotc push --modelpack`: a second manifest over a bundle's blobs, for tools of CNCF ModelPack.

https://github.com/modelpack/model-spec/blob/main/docs/spec.md. Each layer is a file of the OCI
layout, so what such a tool pulls is a bundle, which the loader verifies like any other.
"""

from msgspec.structs import replace

from aotc.bundle.write.hashed_weights import unmodified
from aotc.commands.registry.bundle_push import Pushed
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import copy_of, sha256
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import Descriptor
from aotc_serve.oci.oci_references import Reference
from aotc_serve.oci.registry_blobs import push_blob
from aotc_serve.oci.registry_client import Repository

SUFFIX = "-modelpack"
FILE_PATH = "org.cncf.model.filepath"
PREFIX = "application/vnd.cncf.model."
OTHER = f"{PREFIX}code.v1.raw"
LAYERS = {
    oci_layout.WEIGHTS_TYPE: f"{PREFIX}weight.v1.raw",
    oci_layout.ASSET_TYPE: f"{PREFIX}weight.config.v1.raw",
}
"""ModelPack's media types of weights and assets; all other files are `OTHER`, code."""


def push_modelpack(source: BlobSource, pushed: Pushed, repository: Repository) -> Reference:
    """Push the manifest of a pushed bundle, under its tag and `SUFFIX`; return its reference.

    Raises BundleFormatError, IntegrityError, RegistryError.
    """

    def put(data: bytes, kind: str = OTHER) -> Descriptor:
        push_blob(repository, sha256(data), memoryview(data))
        return Descriptor(mediaType=kind, digest=sha256(data), size=len(data))

    top = (oci_layout.LAYOUT_FILE, oci_layout.INDEX_FILE)
    files = {name: put(copy_of(source.file(name) or b"")) for name in top}
    for digest in sorted(source.digests()):
        path = oci_layout.BLOB_FOLDER + digest.removeprefix("sha256:")
        # To a registry, indexes and manifests are no blobs.
        files[path] = pushed.parts.get(digest) or put(unmodified(source, digest))
    layers = [
        replace(part, mediaType=LAYERS.get(part.mediaType, OTHER), annotations={FILE_PATH: path})
        for path, part in files.items()
    ]
    config = {
        "descriptor": {"name": pushed.name, "version": pushed.version},
        "config": {"format": "aotc"},
        "modelfs": {"type": "layers", "diffIds": [part.digest for part in files.values()]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": oci_layout.MANIFEST_TYPE,
        "artifactType": f"{PREFIX}manifest.v1+json",
        "config": put(canonical_json.encode(config), f"{PREFIX}config.v1+json"),
        "layers": layers,
    }
    data = canonical_json.encode(manifest)
    repository.put_manifest(pushed.tag + SUFFIX, data, oci_layout.MANIFEST_TYPE)
    return pushed.place.at(sha256(data))
