"""Whether fixtures of two bundles are equivalent: equal inputs, and results that agree within the
entry point's tolerance. Plain JAX gives other last bits on other machines, so that each target
keeps its own results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.base.errors import finding
from aotc.commands.merge.bundle_parts import TargetPart
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.safetensors_reader import numpy_dtype, read_tensors
from aotc_runtime.schema.bundle_manifest import ProfileRecord, Tolerance
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.serving.readiness import compare

type Array = np.ndarray[Any, Any]

OUTPUTS = "outputs/"


@dataclass(frozen=True, slots=True)
class _Fixture:
    """bundle: where it was read.  data: a safetensors file."""

    bundle: str
    digest: str
    data: memoryview


def check_fixtures(parts: Sequence[TargetPart]) -> Iterator[Finding]:
    """AOTC-E050 for each fixture that differs from the same one of a bundle before it.

    Raises BundleFormatError (AOTC-E131 to E133) for one that is no safetensors file.
    """
    first: dict[str, _Fixture] = {}
    seen: set[tuple[str, str]] = set()
    for part in parts:
        for name, entry_point in sorted(part.manifest.entry_points.items()):
            for profile in entry_point.profiles:
                place = label(name, profile.sizes)
                fixture = _fixture(part, profile)
                other = first.setdefault(place, fixture)
                if (place, fixture.digest) in seen or other.digest == fixture.digest:
                    continue
                seen.add((place, fixture.digest))
                if found := _difference(other, fixture, entry_point.tolerance, place):
                    yield finding(
                        "AOTC-E050",
                        f"{part.bundle} fixture {place}",
                        f"{fixture.digest}: {found}",
                        expected=f"{other.digest}, as in {other.bundle}, or the same inputs and "
                        "results within the tolerance",
                        hint="build both with the same fixtures, and the same versions of jax",
                    )


def _fixture(part: TargetPart, profile: ProfileRecord) -> _Fixture:
    data = part.blobs[profile.fixture.digest].data
    return _Fixture(part.bundle, profile.fixture.digest, memoryview(data))


def _difference(one: _Fixture, other: _Fixture, tolerance: Tolerance, place: str) -> str:
    """In what they differ beyond the tolerance; empty if in nothing."""
    arrays = [_arrays(fixture, place) for fixture in (one, other)]
    if arrays[0].keys() != arrays[1].keys():
        strangers = ", ".join(sorted(arrays[0].keys() ^ arrays[1].keys()))
        return f"only one of them has {strangers}"
    for name, expected in arrays[0].items():
        actual = arrays[1][name]
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            shown = [f"{a.dtype.name}{list(a.shape)}" for a in (actual, expected)]
            return f"{name} is {shown[0]} instead of {shown[1]}"
        is_output = name.startswith(OUTPUTS)
        rtol, atol = (float(tolerance.rtol), float(tolerance.atol)) if is_output else (0.0, 0.0)
        difference = compare(actual, expected, rtol, atol)
        if not difference.within:
            return f"{name} differs by up to {difference.max_abs:.3g}, {difference.ulp_max} ulp"
    return ""


def _arrays(fixture: _Fixture, place: str) -> dict[str, Array]:
    where = f"{fixture.bundle} fixture {place}"
    return {
        name: np.frombuffer(fixture.data[info.start : info.end], numpy_dtype(info.dtype)).reshape(
            info.shape
        )
        for name, info in read_tensors(fixture.data, where=where).items()
    }
