"""`python -m aotc.parity.worker BUNDLE POLICY TARGET FOLDER`: run fixtures and trials, print JSON.

Uses the runtime alone, exactly as a server would, up to the comparison itself: what is beyond its
tolerance is reported, for the build to judge.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from aotc.parity.trials import try_entry
from aotc.processes import answers_only, end_with_parent
from aotc.shapes.files import read_plans
from aotc_runtime.errors import AotcError, raise_if
from aotc_runtime.serving.readiness import run_fixtures
from aotc_runtime.serving.resident import make_resident
from aotc_runtime.system import host
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.trust import read_policy
from aotc_runtime.verification.verify import examine


def outcome(bundle: Path, policy: Path, target: str, folder: Path) -> dict[str, object]:
    """{"unsuited": findings} if this host cannot run the target, else {"results": …, "trials": …}.

    folder: with the trials of padded and split calls, if there are any.

    Raises BundleFormatError, IntegrityError, TrustError.
    """
    verdict = examine(open_bundle(bundle), read_policy(policy), host.detect_all, target=target)
    if verdict.manifest is None:
        # A gate that does not open says nothing about the host: the build itself is broken.
        raise_if(verdict.findings)
    if verdict.bundle is None:
        return {"unsuited": [finding.to_json() for finding in verdict.findings]}
    resident = make_resident(verdict.bundle)
    results = run_fixtures(resident)
    entries = read_plans(folder).get(target, [])
    return {
        "results": [msgspec.structs.asdict(result) for result in results],
        "trials": [try_entry(entry, resident, folder) for entry in entries],
    }


def main() -> int:
    end_with_parent()
    answers = answers_only()
    bundle, policy, target, folder = sys.argv[1:5]
    try:
        answer = outcome(Path(bundle), Path(policy), target, Path(folder))
    except AotcError as error:
        answer = {"failed": [finding.to_json() for finding in error.findings]}
    assert "jax" not in sys.modules, "the runtime never imports jax"
    with answers:
        answers.write(b"\n" + msgspec.json.encode(answer) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
