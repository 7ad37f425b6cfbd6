"""What each blob of a bundle is, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET

from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.oci_layout import ImageManifest
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.manifest_labels import label


def roles_by_digest(
    root_digest: str,
    targets: Mapping[str, ImageManifest],
    manifests: Mapping[str, BundleManifest],
    attested: Iterable[str],
) -> dict[str, str]:
    """Digest to role. targets, manifests: by the target's name.  attested: digests of attestations
    and what belongs to them.
    """
    roles = {root_digest: "root index"} | dict.fromkeys(attested, "attestation")
    for target, image in targets.items():
        roles[sha256(canonical_json.encode(image))] = f"image manifest of {target}"
        roles[image.config.digest] = f"bundle manifest of {target}"
        roles |= {digest: f"{role} of {target}" for digest, role in _layers(manifests[target])}
    return roles


def _layers(manifest: BundleManifest) -> Iterator[tuple[str, str]]:
    for name, weights in manifest.weights.items():
        for ref in weights.blobs:
            yield ref.digest, f"weights {name}"
    for name, entry_point in manifest.entry_points.items():
        for profile in entry_point.profiles:
            place = label(name, profile.sizes)
            yield profile.module.digest, f"module {place}"
            yield profile.fixture.digest, f"fixture {place}"
            yield profile.executable.digest, f"executable {place}"
        if entry_point.symbolic is not UNSET:
            yield entry_point.symbolic.module.digest, f"symbolic module {name}"
    if manifest.evidence is not UNSET:
        yield manifest.evidence.digest, "evidence"
