"""Errors between a verified bundle and its calls.

Each function makes one error. Imported when an error occurs.
"""

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import AotcError, ReadinessError, finding, refusal
from aotc_runtime.base.suggestions import did_you_mean, with_article
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.bundle_manifest import BundleManifest, DType

Tensor = tuple[str, DType, tuple[int, ...]]
"""Name, element type and shape."""


def no_entry_point(bundle: str, name: object, known: Collection[str]) -> AotcError:
    """Return the error (AOTC-E602) for an entry point that a bundle does not have."""
    expected = "one of: " + ", ".join(known)
    hint = did_you_mean(name, known, "choose one that `aotc inspect` lists")
    return refusal("AOTC-E602", bundle, repr(name), expected=expected, hint=hint)


def no_policy(trust: object) -> AotcError:
    """Return the error (AOTC-E309) for a load that names no trust policy."""
    found, cause = with_article(type(trust).__name__), "trust-argument-is-invalid"
    return refusal("AOTC-E309", "load trust", found, cause=cause, expected="a policy or its path")


def call_failure(device: Device, label: str, error: Exception) -> AotcError:
    """Return the error (AOTC-E755) for a call in which the engine raised an error."""
    return refusal("AOTC-E755", label, f"{device.engine}: {first_line(error)}")


def too_few_devices(manifest: BundleManifest, device: Device) -> AotcError:
    """Return the error (AOTC-E555) for an engine that was started with too few devices."""
    where = f"{manifest.name} {manifest.version} for {manifest.target.name}"
    found = f"{device.engine} started with {device.device_count}"
    return refusal("AOTC-E555", where, found, expected=f"{manifest.requires.devices} devices")


def other_tensors(where: str, declared: Sequence[Tensor], found: Sequence[Tensor]) -> AotcError:
    """Return the error (AOTC-E117) for weights whose tensors are not those of the manifest."""
    pairs = enumerate(zip_longest(declared, found))
    place, (wanted, given) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
    expected, shown = _tensor_text(wanted), _tensor_text(given)
    return refusal("AOTC-E117", f"{where}, tensor {place + 1}", shown, expected=expected)


def _tensor_text(tensor: Tensor | None) -> str:
    if tensor is None:
        return "no more tensors"
    name, dtype, shape = tensor
    return f"{name}: {dtype.value}{list(shape)}"


def fixture_failed(where: str, error: Exception) -> AotcError:
    """Return the error (AOTC-E755) for a fixture that the engine does not run."""
    return refusal("AOTC-E755", where, first_line(error), cause="fixture-failed-to-run")


def unfit_fixture(
    where: str, name: str, aval: Aval, array: np.ndarray[Any, Any] | None
) -> AotcError:
    """Return the error (AOTC-E702) for a fixture without this tensor, or with another one."""
    found = f"{array.dtype.name}{list(array.shape)}" if array is not None else "no such tensor"
    expected = f"{aval.dtype.name}{list(aval.shape)}"
    return refusal("AOTC-E702", f"{where} {name}", found, expected=expected)


def changed_results(changed: Sequence[tuple[str, str]]) -> AotcError:
    """Return the error (AOTC-E704) for executables whose results vary.

    Args:
        changed: Labels of the executables, and paths of their outputs.
    """
    return ReadinessError(
        *(
            finding("AOTC-E704", f"{label} output {path}", "another result in the second call")
            for label, path in changed
        )
    )
