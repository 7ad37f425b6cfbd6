"""The thin loader of aotc bundles: verify, load, call. Never imports jax, never compiles."""

import typing as _typing

from aotc_runtime.errors import (
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
from aotc_runtime.system import processor as _processor

if _typing.TYPE_CHECKING:
    from aotc_runtime.loader import load
    from aotc_runtime.schema.policy import TrustPolicy
    from aotc_runtime.serving.arrays import DeviceArray
    from aotc_runtime.serving.containers import Record
    from aotc_runtime.serving.entry_point import LoadedEntryPoint
    from aotc_runtime.serving.loaded import LoadedBundle, State
    from aotc_runtime.serving.loading import Loading
    from aotc_runtime.serving.slot import BundleSlot
    from aotc_runtime.verification.trust import read_policy
    from aotc_runtime.verified import Verified, verify
else:
    _IMPORTED_WHEN_USED = {
        "BundleSlot": "aotc_runtime.serving.slot",
        "DeviceArray": "aotc_runtime.serving.arrays",
        "LoadedBundle": "aotc_runtime.serving.loaded",
        "LoadedEntryPoint": "aotc_runtime.serving.entry_point",
        "Loading": "aotc_runtime.serving.loading",
        "Record": "aotc_runtime.serving.containers",
        "State": "aotc_runtime.serving.loaded",
        "TrustPolicy": "aotc_runtime.schema.policy",
        "Verified": "aotc_runtime.verified",
        "load": "aotc_runtime.loader",
        "read_policy": "aotc_runtime.verification.trust",
        "verify": "aotc_runtime.verified",
    }

    def __getattr__(name: str) -> _typing.Any:
        if name in __all__:
            # numpy and jaxlib, which the rest needs, would end this process by SIGILL.
            _processor.require()
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
    "LoadedBundle",
    "LoadedEntryPoint",
    "Loading",
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
