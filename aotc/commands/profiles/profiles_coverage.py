"""`aotc profiles check`: how a bundle's profiles serve a traffic log. Needs no trust policy."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from aotc.base.errors import refusal
from aotc.commands.profiles.traffic.size_space import space_of_bundle
from aotc.commands.profiles.traffic.traffic_check import Checked, check_traffic
from aotc.commands.profiles.traffic.traffic_log import Traffic, read_traffic
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_examination import read_unverified


def check_bundle(
    bundle: Path, log: Path, entry_point: str | None = None, target: str | None = None
) -> tuple[tuple[Checked, ...], Traffic]:
    """How each target of a bundle serves the calls of one entry point.

    Raises BundleFormatError, IntegrityError; UsageError: AOTC-E040 and E041 for the log, E042 for
    an entry point, E045 for a target that is not there.
    """
    contents, _ = read_unverified(look_into(bundle))
    manifests = contents.manifests
    if target is not None and target not in manifests:
        raise _refusal(
            "AOTC-E045", "--target", f"one of: {', '.join(manifests)}", target, manifests
        )
    first = next(iter(manifests.values()))
    name = _entry_point(first, entry_point)
    traffic = read_traffic(log, name, sorted(first.entry_points[name].dimensions))
    checked = tuple(
        check_traffic(space_of_bundle(manifest, name), traffic, each)
        for each, manifest in manifests.items()
        if target in (None, each)
    )
    return checked, traffic


def _entry_point(manifest: BundleManifest, wanted: str | None) -> str:
    sized = [name for name, entry in manifest.entry_points.items() if entry.dimensions]
    if wanted is None and len(sized) == 1:
        return sized[0]
    if wanted is not None and wanted in sized:
        return wanted
    expected = f"an entry point with dimensions: {', '.join(sized) or 'there is none'}"
    raise _refusal("AOTC-E042", "--entry", expected, wanted, sized)


def _refusal(
    code: str, where: str, expected: str, found: str | None, known: Collection[str]
) -> AotcError:
    hint = did_you_mean(found, known, f"pass {where} NAME")
    return refusal(code, where, found or f"{len(known)} of them", expected=expected, hint=hint)
