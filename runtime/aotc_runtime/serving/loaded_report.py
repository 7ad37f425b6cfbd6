"""What a bundle that is ready tells of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.bundle_manifest import engine_name, engine_of
from aotc_runtime.schema.manifest_labels import executable_key
from aotc_runtime.schema.mesh_report import mesh_report
from aotc_runtime.verification.choice_report import certified_report, choice_report
from aotc_runtime.verification.host_compatibility import Choice

if TYPE_CHECKING:
    from aotc_runtime.serving.loaded_bundle import LoadedBundle


def loaded_report(
    bundle: LoadedBundle, choice: Choice, device: Device, compilations: int
) -> dict[str, Any]:
    """Identity, load times (seconds by stage), compilations, fixtures and calls; JSON-able."""
    return {
        "name": bundle.name,
        "version": bundle.version,
        "state": bundle.state.value,
        "target": bundle.manifest.target.name,
        "engine": engine_name(bundle.manifest.target),
        "engines": {
            executable_key(name, record.sizes).label: engine_of(bundle.manifest.platform_of(record))
            for name, entry_point in bundle.manifest.entry_points.items()
            for record in entry_point.profiles
        },
        "target_reason": choice_report(choice),
        "root_digest": bundle.root_digest,
        "signers": list(bundle.signers),
        "jaxlib": bundle.manifest.built_with.jaxlib,
        "certified": certified_report(choice.certified),
        "threads": device.threads,
        "xla_flags": device.flags or None,
        "devices": bundle.manifest.requires.devices,
        "mesh": mesh_report(bundle.manifest),
        "timings": dict(bundle.timings),
        "compilations": compilations,
        "fixtures": [
            {
                "label": key.label,
                "max_abs": result.max_abs,
                "max_rel": result.max_rel,
                "ulp_max": result.ulp_max,
                "elements": result.elements,
            }
            for key, result in bundle.fixtures.items()
        ],
        "entry_points": {
            name: entry_point.report() for name, entry_point in bundle.entry_points.items()
        },
    }
