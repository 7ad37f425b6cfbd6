"""Open, verify, map, deserialize, check: ready when it returns."""

from __future__ import annotations

import os
import time
from pathlib import Path

from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.serving.loaded import LoadedBundle
from aotc_runtime.serving.readiness import make_ready
from aotc_runtime.serving.resident import make_resident
from aotc_runtime.system import host
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.trust import read_policy
from aotc_runtime.verification.verify import verify


def load(
    path: str | os.PathLike[str],
    *,
    trust: str | os.PathLike[str] | TrustPolicy,
    target: str | None = None,
) -> LoadedBundle:
    """Load a bundle; it is ready when this returns, and nothing was compiled.

    path: an .aotb file or an OCI layout folder.  trust: a policy, or the path of its TOML file.
    target: one of the bundle's targets, or None for the best this host can run.
    Raises an AotcError: TrustError, IntegrityError, BundleFormatError, IncompatibleHostError,
    IncompatibleRuntimeError, ResourceError, BackendError, ReadinessError.

    Unsafety: a bundle is machine code. Whoever holds a key the policy trusts can run anything in
    this process. The weights stay mapped: the file may be replaced (renamed over) but must not be
    written into while it is loaded.
    """
    timings: dict[str, float] = {}
    started = last = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal last
        now = time.perf_counter()
        timings[stage] = now - last
        last = now

    policy = trust if isinstance(trust, TrustPolicy) else read_policy(Path(trust))
    source = open_bundle(path)
    lap("open")
    facts = host.detect()
    lap("runtime")
    verified = verify(source, policy, facts, target=target)
    lap("verify")
    resident = make_resident(verified)
    lap("deserialize")
    loaded = make_ready(resident)
    lap("fixtures")
    timings["total"] = last - started
    loaded.timings.update(timings)
    return loaded
