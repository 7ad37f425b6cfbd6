"""Descriptors of an OCI layout, and index.json, which names the root and the attestations."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from aotc_runtime.base.digest import sha256
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Descriptor, Index
from aotc_runtime.schema.bundle_manifest import BundleManifest

_NO_PART_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]")


def descriptor_of[D: Descriptor](kind: type[D], data: bytes, media_type: str, **extra: Any) -> D:
    """Return a reference whose type states what the bytes are."""
    return kind(mediaType=media_type, digest=sha256(data), size=len(data), **extra)


def entry_descriptor(entry: oci_layout.Entry, artifact_type: str = "") -> Descriptor:
    """Return the reference that an entry of index.json is."""
    return Descriptor(
        mediaType=entry.mediaType, digest=entry.digest, size=entry.size, artifactType=artifact_type
    )


def layout_index(
    root: Descriptor, attestations: Iterable[Descriptor], manifests: Mapping[str, BundleManifest]
) -> Index:
    """Return index.json, with names for tools that copy by name.

    They are the version for the root; the root's digest with its own for an attestation.
    """
    named = [_with_name(root, version_name(manifests))]
    named += [_with_name(each, attestation_name(root.digest, each.digest)) for each in attestations]
    return Index(schemaVersion=2, mediaType=oci_layout.INDEX_TYPE, manifests=tuple(named))


def version_name(manifests: Mapping[str, BundleManifest]) -> str:
    """Return the version of a bundle as the name of its root, in folders and in registries."""
    return _NO_PART_OF_A_NAME.sub("_", next(iter(manifests.values())).version)


def attestation_name(root: str, digest: str) -> str:
    """Return the name of an attestation for tools without referrers, such as skopeo."""
    return f"{root.replace(':', '-')}.{digest[7:23]}"


def _with_name(reference: Descriptor, name: str) -> Descriptor:
    return msgspec.structs.replace(reference, annotations={oci_layout.NAME_ANNOTATION: name})
