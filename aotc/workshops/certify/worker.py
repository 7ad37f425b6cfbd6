"""`python -I -B worker.py RUNTIME` in an environment without aotc: run every fixture of a target.

RUNTIME: a folder that holds the package aotc_runtime. The job, one JSON object, comes on stdin; an
object a line goes to stdout: {"doing": …} before each step, then {"surroundings": …}, {"ran": …}
for each fixture, and {"finished": true}; or {"unsuited": findings}, {"refused": findings}.

The verifier is told that the jaxlib which runs here is the builder's. Only this makes it run
another one, and only in this process, which serves nobody. aotc_runtime itself offers no such way:
`load` takes no facts about its host.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

RESULTS = "AOTC-E7"
"""Codes of findings that are results of this jaxlib: XLA or a fixture refused. Others are about the
bundle, the policy or the host."""


def main() -> int:
    sys.path.insert(0, sys.argv[1])
    job = json.load(sys.stdin)
    # Whatever libraries print goes to stderr.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def say(**event: Any) -> None:
            print(json.dumps(event), file=answers, flush=True)

        say(doing="starting jaxlib")
        run(job, say)
    return 0


def run(job: dict[str, Any], say: Callable[..., None]) -> None:
    """Verify, load and run; findings are reported through `say`."""
    from aotc_runtime.errors import AotcError

    try:
        _run(job, say)
    except AotcError as error:
        findings = [finding.to_json() for finding in error.findings]
        say(**{"refused" if error.code.startswith(RESULTS) else "unsuited": findings})


def _run(job: dict[str, Any], say: Callable[..., None]) -> None:
    from aotc_runtime.engines.registry import detect
    from aotc_runtime.serving.resident import make_resident

    facts = detect(None, job["devices"])
    say(surroundings=_surroundings(facts))
    say(doing="verifying")
    bundle = _verified(job, facts)
    say(verified=bundle.root_digest)
    say(doing="loading")
    resident = make_resident(bundle)
    for entry_point in resident.entry_points.values():
        _run_fixtures(resident, entry_point, say)
        if entry_point.symbolic is not None:
            _compile_symbolic(entry_point, say)
    say(finished=True)


def _verified(job: dict[str, Any], facts: Any) -> Any:
    """The `VerifiedBundle` of the job, as if the jaxlib of its builder ran here."""
    from pathlib import Path

    import msgspec

    from aotc_runtime.schema.policy import TrustPolicy
    from aotc_runtime.system.store import open_bundle
    from aotc_runtime.verification.examine import verify

    policy = msgspec.convert(job["policy"], TrustPolicy, strict=False)
    # The policy's rules on runtimes are for servers; this process is not one.
    accepts = msgspec.structs.replace(policy.accepts, jaxlib=None, aotc_runtime=None)
    policy = msgspec.structs.replace(policy, accepts=accepts)
    told = msgspec.structs.replace(facts, jaxlib=job["accepted_jaxlib"])
    return verify(open_bundle(Path(job["bundle"])), policy, told, time.time(), job["target"])


def _run_fixtures(resident: Any, entry_point: Any, say: Callable[..., None]) -> None:
    from aotc_runtime.serving.readiness import run_fixture

    for profile in entry_point.profiles:
        say(doing=profile.label)
        started = time.perf_counter()
        result = run_fixture(resident, entry_point, profile)
        seconds = time.perf_counter() - started
        say(
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
            }
        )


def _compile_symbolic(entry_point: Any, say: Callable[..., None]) -> None:
    """Compile the module for calls of other sizes, as this jaxlib would do while it serves."""
    from aotc_runtime.serving.compiling.symbolic import SymbolicCompiler

    profile = entry_point.profiles[0]
    say(doing=f"compiling {profile.label} from its module")
    compiled = SymbolicCompiler(
        entry_point.device, entry_point.name, entry_point.spec, entry_point.symbolic
    )
    compiled(dict(profile.record.sizes))


def _surroundings(facts: Any) -> dict[str, Any]:
    from importlib.metadata import distributions

    return {
        "jaxlib": facts.jaxlib,
        "cpu": facts.cpu,
        "isa": sorted(facts.isa),
        "os": facts.os,
        "libc": facts.libc,
        "python": facts.python,
        "runtime": facts.runtime,
        "packages": {found.metadata["Name"]: found.version for found in distributions()},
    }


if __name__ == "__main__":
    sys.exit(main())
