"""index.json: which blob is the root and which are attestations, under names that tools copy by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Descriptor, Index
from aotc_runtime.schema.bundle_manifest import BundleManifest

_NO_PART_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]")


def layout_index(
    root: Descriptor, attestations: Iterable[Descriptor], manifests: Mapping[str, BundleManifest]
) -> Index:
    """index.json, whose entries have the names by which registries' tools copy them: the version
    for the root, the root's digest with the attestation's own for an attestation.
    """
    named = [_named(root, version_name(manifests))]
    named += [_named(each, attestation_name(root.digest, each.digest)) for each in attestations]
    return Index(schemaVersion=2, mediaType=oci_layout.INDEX_TYPE, manifests=tuple(named))


def version_name(manifests: Mapping[str, BundleManifest]) -> str:
    """The version of a bundle as the name of its root, in folders and in registries."""
    return _NO_PART_OF_A_NAME.sub("_", next(iter(manifests.values())).version)


def attestation_name(root: str, digest: str) -> str:
    """What tools that copy by name copy an attestation by: such as skopeo, which knows no
    referrers.
    """
    return f"{root.replace(':', '-')}.{digest[7:23]}"


def _named(reference: Descriptor, name: str) -> Descriptor:
    return msgspec.structs.replace(reference, annotations={oci_layout.NAME_ANNOTATION: name})
