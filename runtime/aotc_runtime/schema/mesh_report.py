"""A bundle's mesh and shardings for reports."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.shard_layout import text


def mesh_report(manifest: BundleManifest) -> dict[str, Any] | None:
    """JSON-able: sizes by axis, the devices, and the shardings of what is cut, by owner and path;
    None for a bundle that runs on one device.
    """
    if manifest.mesh is UNSET:
        return None
    shardings: dict[str, dict[str, str]] = {
        f"weights {name}": {t.name: text(t.sharding) for t in set_.tensors if t.sharding}
        for name, set_ in manifest.weights.items()
    }
    for name, spec in manifest.entry_points.items():
        for kind, tensors in (("inputs", spec.inputs), ("outputs", spec.outputs)):
            shardings[f"{name} {kind}"] = {
                tensor.path or "result": text(tensor.sharding)
                for tensor in tensors
                if tensor.sharding
            }
    return {
        "axes": manifest.mesh.sizes,
        "devices": list(manifest.mesh.devices),
        "shardings": {owner: cut for owner, cut in shardings.items() if cut},
    }
