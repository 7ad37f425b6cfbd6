"""index.json: which blob is the root and which are attestations, under names that tools copy by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from aotc_runtime.formats import oci
from aotc_runtime.formats.oci import Descriptor, Index
from aotc_runtime.schema.manifest import BundleManifest

_NO_PART_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]")


def layout_index(
    root: Descriptor, attestations: Iterable[Descriptor], manifests: Mapping[str, BundleManifest]
) -> Index:
    """index.json, whose entries have the names by which registries' tools copy them: the version
    for the root, the root's digest with the attestation's own for an attestation.
    """
    version = next(iter(manifests.values())).version
    of_root = root.digest.replace(":", "-")
    named = [_named(root, _NO_PART_OF_A_NAME.sub("_", version))]
    named += [_named(each, f"{of_root}.{each.digest[7:23]}") for each in attestations]
    return Index(schemaVersion=2, mediaType=oci.INDEX_TYPE, manifests=tuple(named))


def _named(reference: Descriptor, name: str) -> Descriptor:
    return msgspec.structs.replace(reference, annotations={oci.NAME_ANNOTATION: name})
