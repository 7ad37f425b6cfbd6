"""What a bundle that is ready tells of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotc_runtime.engines.device import Device
from aotc_runtime.schema.manifest import engine_name
from aotc_runtime.schema.mesh_report import mesh_report
from aotc_runtime.verification.choice_report import certified_report, choice_report
from aotc_runtime.verification.compatibility import Choice

if TYPE_CHECKING:
    from aotc_runtime.serving.loaded import LoadedBundle


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
