"""The report of a loaded bundle, and errors of one that is not ready."""

from collections.abc import Mapping, Sequence
from typing import Any

from aotc_runtime.base.errors import AotcError, ReadinessError, finding, refusal
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.bundle_manifest import BundleManifest, engine_name, engine_of
from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key
from aotc_runtime.schema.shard_layout import mesh_report
from aotc_runtime.serving.readiness import Difference, Ran
from aotc_runtime.serving.resident_bundle import ResidentBundle, ResidentProfile
from aotc_runtime.serving.serving_refusals import changed_results
from aotc_runtime.verification.choice_report import certified_of, certified_report, choice_report
from aotc_runtime.verification.host_compatibility import Choice


def bundle_report(
    manifest: BundleManifest,
    choice: Choice,
    device: Device,
    fixtures: Mapping[ExecutableKey, Difference],
) -> dict[str, Any]:
    """Return a JSON-able report of a loaded bundle.

    It has identity, target, the engine of each executable and what runs it, and the difference of
    each fixture from its reference.
    """
    return {
        "name": manifest.name,
        "version": manifest.version,
        "target": manifest.target.name,
        "engine": engine_name(manifest.target),
        "engines": {
            executable_key(name, record.sizes).label: engine_of(manifest.platform_of(record))
            for name, entry_point in manifest.entry_points.items()
            for record in entry_point.profiles
        },
        "target_reason": choice_report(choice),
        "jaxlib": manifest.built_with.jaxlib,
        "certified": certified_report(certified_of(choice)),
        "threads": device.threads,
        "xla_flags": device.flags or None,
        "devices": manifest.requires.devices,
        "mesh": mesh_report(manifest),
        "fixtures": [
            {
                "label": key.label,
                "max_abs": result.max_abs,
                "max_rel": result.max_rel,
                "ulp_max": result.ulp_max,
                "elements": result.elements,
            }
            for key, result in fixtures.items()
        ],
    }


def not_ready(
    resident: ResidentBundle, every: Sequence[tuple[ResidentProfile, Ran]], compilations: int
) -> AotcError:
    """Return the error for a bundle that is not ready.

    A fixture did not match (AOTC-E701 tolerance exceeded, E704 another result in a second call), or
    the load compiled something (E703).
    """
    findings = []
    for profile, ran in every:
        if not (difference := ran.difference).within:
            tolerance = resident.entry_points[profile.key.entry_point].spec.tolerance
            where = f"{profile.label} output {difference.worst or 'result'}"
            expected = f"the recorded result, rtol={tolerance.rtol} atol={tolerance.atol}"
            findings.append(finding("AOTC-E701", where, str(difference), expected=expected))
    changed = [(profile.label, ran.changed) for profile, ran in every if ran.changed is not None]
    if not findings and not changed:
        found = f"{compilations} compilations"
        return refusal("AOTC-E703", "load", found)
    return ReadinessError(*findings) if findings else changed_results(changed)
