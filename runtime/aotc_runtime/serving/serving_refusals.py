"""What is refused between a verified bundle and its calls, in words: each function makes the error
of one refusal. Imported when something is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from aotc_runtime.base.errors import AotcError, ReadinessError, finding, refusal
from aotc_runtime.base.rendering import first_line
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.engines.engine_device import Aval, Device
from aotc_runtime.schema.bundle_manifest import BundleManifest, DType

Tensor = tuple[str, DType, tuple[int, ...]]
"""Name, element type and shape."""


def no_entry_point(bundle: str, name: object, known: Collection[str]) -> AotcError:
    """The error (AOTC-E602) for an entry point that a bundle does not have."""
    expected = "one of " + ", ".join(known)
    hint = did_you_mean(name, known, "use an entry point of this bundle")
    return refusal("AOTC-E602", bundle, repr(name), expected=expected, hint=hint)


def no_policy(trust: object) -> AotcError:
    """The error (AOTC-E309) for a load that names no trust policy."""
    expected = "trust= a policy, or the path of its TOML file"
    hint = "write a policy with `aotc trust init`; nothing loads without one"
    return refusal("AOTC-E309", "load", f"a {type(trust).__name__}", expected=expected, hint=hint)


def failed(device: Device, label: str, error: Exception) -> AotcError:
    """The engine's error as ours (AOTC-E755)."""
    expected = f"{device.engine} to run the executable"
    hint = "the bundle stays usable; if memory ran out, free some or call with less"
    return refusal("AOTC-E755", label, first_line(error), expected=expected, hint=hint)


def too_few_devices(manifest: BundleManifest, device: Device) -> AotcError:
    """The error (AOTC-E555) for an engine that was started with too few devices."""
    return refusal(
        "AOTC-E555",
        f"{manifest.name} {manifest.version} for {manifest.target.name}",
        f"{device.engine} was started with {device.device_count}",
        expected=f"{manifest.requires.devices} devices",
        hint="pass `devices` to the first load of the process",
    )


def other_tensors(where: str, declared: Sequence[Tensor], found: Sequence[Tensor]) -> AotcError:
    """The error (AOTC-E117) for a weights set whose tensors are not those of the manifest."""
    pairs = enumerate(zip_longest(declared, found))
    place, (wanted, given) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
    return refusal(
        "AOTC-E117",
        f"{where}, tensor {place + 1}",
        _tensor_text(given),
        expected=_tensor_text(wanted),
    )


def _tensor_text(tensor: Tensor | None) -> str:
    if tensor is None:
        return "no more tensors"
    name, dtype, shape = tensor
    return f"{name}: {dtype.value}{list(shape)}"


def fixture_failed(where: str, error: Exception) -> AotcError:
    """The error (AOTC-E755) for a fixture that the engine does not run."""
    expected = "the executable to run its fixture"
    hint = "rebuild the bundle with the jaxlib that is installed here"
    return refusal("AOTC-E755", where, first_line(error), expected=expected, hint=hint)


def unfit_fixture(
    where: str, name: str, aval: Aval, array: np.ndarray[Any, Any] | None
) -> AotcError:
    """The error (AOTC-E702) for a fixture without this tensor, or with another one."""
    found = f"{array.dtype.name}{list(array.shape)}" if array is not None else "none"
    expected = f"a tensor {name}: {aval.dtype.name}{list(aval.shape)}"
    return refusal("AOTC-E702", where, found, expected=expected)


def changed_results(changed: Sequence[tuple[str, str]]) -> AotcError:
    """The error (AOTC-E704) for executables that give other results in a second call. changed:
    labels and paths of outputs.
    """
    return ReadinessError(
        *(
            finding("AOTC-E704", f"{label} output {path}", "another result in a second call")
            for label, path in changed
        )
    )
