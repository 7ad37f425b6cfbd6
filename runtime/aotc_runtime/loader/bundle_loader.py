"""`load`: open, verify, map, deserialize, run the fixtures. The bundle it returns is ready.

Imports inside functions take as long as the dynamic linker takes for XLA, and run meanwhile.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system import processor_check
from aotc_runtime.system.bundle_files import MappedBundle, open_bundle

if TYPE_CHECKING:
    from aotc_runtime.serving.loaded_bundle import LoadedBundle
    from aotc_runtime.verification.verify_bundle import Accepted

Folder = str | os.PathLike[str]
Trust = str | os.PathLike[str] | TrustPolicy


def load(
    path: str | os.PathLike[str],
    *,
    trust: Trust,
    store: Folder | None = None,
    target: str | None = None,
    threads: int | None = None,
    devices: int | None = None,
    memory_limit: int | None = None,
) -> LoadedBundle:
    """Load a bundle; it is ready when this returns, and nothing was compiled.

    Args:
        path: An .aotb file, an OCI layout folder, or the text `oci://HOST/REPOSITORY@sha256:…`.
        trust: A policy, or the path of its TOML file.
        store: The artifact store, as aotc-serve keeps it; None for $AOTC_STORE, or the user's
            cache. Bundles stored there need no network.
        target: One of the bundle's targets, or None for the best that this host can run.
        threads: Size of the engine's thread pool, or None for one thread per processor; the first
            load in a process decides.
        devices: Number of devices that the engine makes of the processor, or None for as many as
            this bundle needs; the first load in a process decides, so state the most that a later
            bundle with a mesh needs.
        memory_limit: Bytes that the bundle may need, or None for what the process may allocate.

    Raises an AotcError: TrustError, IntegrityError, BundleFormatError, IncompatibleHostError,
    IncompatibleRuntimeError, ResourceError, BackendError, ReadinessError, RegistryError.

    Unsafety: a bundle is machine code. Whoever holds a key the policy trusts can run anything in
    this process. The weights stay mapped: the file may be replaced (renamed over) but must not be
    written into while it is loaded.
    """
    laps = Laps()
    require_numbers(threads, devices, memory_limit)
    reference = path if isinstance(path, str) and "://" in path else None
    if reference is None:
        source = open_bundle(path)
        _begin_loading_xla(source)
    laps.end("open")
    from aotc_runtime.verification.verify_bundle import accept_bundle

    laps.end("import")
    policy = policy_of(trust)
    laps.end("policy")
    if reference is not None:
        from aotc_runtime.engines.engine_registry import prepare
        from aotc_runtime.loader.bundle_sources import fetch

        numbers = threads, devices, memory_limit
        source = fetch(reference, policy, store, target, ask=lambda w: prepare(w, *numbers))
    with accept_bundle(source, policy, time.time()) as accepted:
        laps.end("verify")
        return load_accepted(accepted, target, threads, devices, memory_limit, laps)


_XLA_PLATFORM = re.compile(rb'"platform":"(cpu|cuda|tpu)"')
_DOCUMENT_BYTES_MAX = 2**20


def _begin_loading_xla(source: MappedBundle) -> None:
    """Begin to load the library of XLA for a bundle that names a platform of it.

    Nothing is verified yet, and the library gets nothing of the bundle. Larger documents are not
    searched: a load of such a bundle takes far longer.
    """
    documents = (data for data in source.members.values() if len(data) <= _DOCUMENT_BYTES_MAX)
    if any(map(_XLA_PLATFORM.search, documents)):
        processor_check.begin_loading()


class Laps:
    """Seconds of the stages of a load."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started = self._last = time.perf_counter()

    def end(self, stage: str) -> None:
        """End the stage, or another part of it, and begin the next one."""
        now = time.perf_counter()
        taken = self.seconds.get(stage, 0.0) + now - self._last
        self.seconds |= {stage: taken, "total": now - self._started}
        self._last = now


def require_numbers(threads: int | None, devices: int | None, memory_limit: int | None) -> None:
    """Check what a caller asks of an engine, in a module that most callers need not import."""
    if any(asked is not None for asked in (threads, devices, memory_limit)):
        from aotc_runtime.engines import engine_options as asked

        asked.require_numbers(threads, devices, memory_limit)


def load_accepted(
    accepted: Accepted,
    target: str | None,
    threads: int | None,
    devices: int | None,
    memory_limit: int | None,
    laps: Laps,
) -> LoadedBundle:
    """Load a bundle that the policy accepts, while its weights may still be hashed."""
    from aotc_runtime.engines import engine_registry
    from aotc_runtime.serving.loaded_bundle import make_ready
    from aotc_runtime.serving.resident_bundle import load_executables, make_resident
    from aotc_runtime.verification.verify_bundle import require_compatible

    laps.end("import")
    # An engine is started only for a bundle that is trusted, and has executables for it.
    facts = engine_registry.prepare(accepted.facts_for(target), threads, devices, memory_limit)
    laps.end("runtime")
    compatible = require_compatible(accepted, facts, target)
    started = {p: engine_registry.start(p, threads, devices) for p in compatible.manifest.platforms}
    # The weights are being hashed meanwhile; nothing runs before that is done.
    executables = load_executables(started, compatible.manifest, compatible.executables)
    laps.end("deserialize")
    resident = make_resident(compatible.finish(), executables)
    laps.end("weights")
    loaded = make_ready(resident)
    laps.end("fixtures")
    loaded.timings.update(laps.seconds)
    return loaded


def policy_of(trust: object) -> TrustPolicy:
    """Return the policy that a caller passes or names. Raises TrustError."""
    if isinstance(trust, TrustPolicy):
        return trust
    if isinstance(trust, str | os.PathLike):
        from aotc_runtime.verification.policy_reader import read_policy

        return read_policy(trust)
    from aotc_runtime.serving.serving_refusals import no_policy

    raise no_policy(trust)
