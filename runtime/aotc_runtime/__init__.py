"""The thin loader of aotc bundles: verify, load, call. Never imports jax, never compiles."""

import typing as _typing

from aotc_runtime.base.errors import (
    AotcError,
    BackendError,
    BundleFormatError,
    Finding,
    IncompatibleHostError,
    IncompatibleRuntimeError,
    IntegrityError,
    ReadinessError,
    RegistryError,
    ResourceError,
    ShapeError,
    TrustError,
)
from aotc_runtime.system import processor_check as _processor

if _typing.TYPE_CHECKING:
    from aotc_runtime.loader.bundle_loader import load
    from aotc_runtime.loader.verified import Verified, verify
    from aotc_runtime.schema.result_records import Record
    from aotc_runtime.schema.trust_policy import TrustPolicy
    from aotc_runtime.serving.bundle_assets import LoadedAsset
    from aotc_runtime.serving.bundle_slot import BundleSlot
    from aotc_runtime.serving.device_arrays import DeviceArray
    from aotc_runtime.serving.loaded_bundle import LoadedBundle, LoadedEntryPoint, State
    from aotc_runtime.verification.policy_reader import read_policy
else:
    _IMPORTED_WHEN_USED = {
        "BundleSlot": "aotc_runtime.serving.bundle_slot",
        "DeviceArray": "aotc_runtime.serving.device_arrays",
        "LoadedAsset": "aotc_runtime.serving.bundle_assets",
        "LoadedBundle": "aotc_runtime.serving.loaded_bundle",
        "LoadedEntryPoint": "aotc_runtime.serving.loaded_bundle",
        "Record": "aotc_runtime.schema.result_records",
        "State": "aotc_runtime.serving.loaded_bundle",
        "TrustPolicy": "aotc_runtime.schema.trust_policy",
        "Verified": "aotc_runtime.loader.verified",
        "load": "aotc_runtime.loader.bundle_loader",
        "read_policy": "aotc_runtime.verification.policy_reader",
        "verify": "aotc_runtime.loader.verified",
    }

    def __getattr__(name: str) -> _typing.Any:
        if name in __all__:
            _processor.require_numpy()
        if name in _IMPORTED_WHEN_USED:
            from importlib import import_module

            return getattr(import_module(_IMPORTED_WHEN_USED[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AotcError",
    "BackendError",
    "BundleFormatError",
    "BundleSlot",
    "DeviceArray",
    "Finding",
    "IncompatibleHostError",
    "IncompatibleRuntimeError",
    "IntegrityError",
    "LoadedAsset",
    "LoadedBundle",
    "LoadedEntryPoint",
    "ReadinessError",
    "Record",
    "RegistryError",
    "ResourceError",
    "ShapeError",
    "State",
    "TrustError",
    "TrustPolicy",
    "Verified",
    "load",
    "read_policy",
    "verify",
]
