"""Runs every fixture of a target in an environment without aotc.

Run as `python -I -B certify_worker.py FOLDER`. Each finished item is a JSON object:
{"surroundings": …}, {"verified": …}, or {"ran": …} for a fixture.

The verifier is given the builder's version as the one that runs here. Only this makes it run
another version, and only in this process, which serves nothing. aotc_runtime itself has no such
option: `load` takes no facts about its host.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotc.base.workers.worker_child import Progress


def main() -> None:
    """Run the job with the aotc_runtime of this environment.

    Of aotc, it imports the modules of `worker_child` from beside this file; what is installed
    beside aotc stays out of reach.
    """
    package = ModuleType("aotc")
    package.__path__ = [str(Path(__file__).parents[2])]
    sys.modules["aotc"] = package
    from aotc.base.workers.worker_child import answer

    answer(dict[str, Any], run)


def run(job: dict[str, Any], progress: Progress) -> None:
    """Verify, load and run. Raises AotcError for what is refused."""
    progress.started(f"starting {job['package']}")
    from msgspec import UNSET

    from aotc_runtime.engines.engine_registry import detect
    from aotc_runtime.serving.resident_bundle import make_resident

    facts = detect(None, job["devices"], job["platforms"])
    _finished(progress, surroundings=_surroundings(job, facts))
    progress.started("verifying")
    bundle = _verify(job, facts)
    _finished(progress, verified=bundle.root_digest)
    progress.started("loading")
    resident = make_resident(bundle)
    for entry_point in resident.entry_points.values():
        _run_fixtures(resident, entry_point, progress)
        if entry_point.spec.symbolic is not UNSET:
            _compile_symbolic(entry_point, progress)


def _finished(progress: Progress, **event: Any) -> None:
    progress.finished(json.dumps(event))


def _verify(job: dict[str, Any], facts: Any) -> Any:
    """Return the `VerifiedBundle` of the job, as if the release of its builder ran here."""
    import msgspec

    from aotc_runtime.schema.trust_policy import TrustPolicy
    from aotc_runtime.system.bundle_files import open_bundle
    from aotc_runtime.verification.bundle_examination import verify

    policy = msgspec.convert(job["policy"], TrustPolicy, strict=False)
    # The policy's rules on runtimes are for servers; this process is not one.
    accepts = msgspec.structs.replace(policy.accepts, jaxlib=None, aotc_runtime=None)
    policy = msgspec.structs.replace(policy, accepts=accepts)
    told = _without_version(facts, job["package"], job["accepted"])
    return verify(open_bundle(Path(job["bundle"])), policy, told, time.time(), job["target"])


def _run_fixtures(resident: Any, entry_point: Any, progress: Progress) -> None:
    from aotc_runtime.serving.readiness import run_fixture
    from aotc_runtime.serving.serving_refusals import changed_results

    for profile in entry_point.profiles:
        progress.started(profile.label)
        started = time.perf_counter()
        ran = run_fixture(resident, entry_point, profile)
        seconds = time.perf_counter() - started
        if ran.changed is not None:
            raise changed_results([(profile.label, ran.changed)])
        result = ran.difference
        _finished(
            progress,
            ran={
                "label": profile.label,
                "executable": profile.record.executable.digest,
                "fixture": profile.record.fixture.digest,
                "withinTolerance": result.within,
                # Text, since JSON has no infinity.
                "maxAbs": repr(result.max_abs),
                "maxRel": repr(result.max_rel),
                "ulpMax": result.ulp_max,
                "elements": result.elements,
                "worst": result.worst,
                "seconds": f"{seconds:.6f}",
            },
        )


def _compile_symbolic(entry_point: Any, progress: Progress) -> None:
    """Compile the module for calls of other sizes, as this jaxlib would do while it serves."""
    from aotc_runtime.serving.routing.symbolic_compiler import SymbolicCompiler

    profile = entry_point.profiles[0]
    progress.started(f"compiling {profile.label} from its module")
    SymbolicCompiler(entry_point)(dict(profile.record.sizes))


def _without_version(facts: Any, package: str, accepted: str) -> Any:
    """Return these facts without the version of the package that runs the target."""
    import msgspec

    if package == "jaxlib":
        return msgspec.structs.replace(facts, jaxlib=accepted)
    # The job asks for no platforms but those of the one engine.
    others = [msgspec.structs.replace(each, plugin=accepted) for each in facts.accelerators]
    return msgspec.structs.replace(facts, accelerators=tuple(others))


def _surroundings(job: dict[str, Any], facts: Any) -> dict[str, Any]:
    from importlib.metadata import distributions

    others = [each.plugin for each in facts.accelerators]
    return {
        "version": facts.jaxlib if job["package"] == "jaxlib" else "".join(others),
        "cpu": facts.cpu,
        "isa": sorted(facts.isa),
        "os": facts.os,
        "libc": facts.libc,
        "python": facts.python,
        "runtime": facts.runtime,
        "packages": {found.metadata["Name"]: found.version for found in distributions()},
    }


if __name__ == "__main__":
    main()
