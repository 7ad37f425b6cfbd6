"""`python -m aotc.parity.worker BUNDLE POLICY TARGET FOLDER`: run fixtures, calls and trials, print
an `Answer`.

Uses the runtime alone, exactly as a server would, up to the comparison itself: what is beyond its
tolerance is reported, for the build to judge. Calls are those of plain JAX, passed to the loader's
own entry points and compared in their structures.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from aotc.parity.calls import miscalled, misread
from aotc.parity.isolated import Answer, Differing, encode
from aotc.parity.trials import try_entry
from aotc.processes import answers_only, end_with_parent
from aotc.shapes.files import read_plans
from aotc_runtime.engines.survey import detect_all
from aotc_runtime.errors import AotcError, ReadinessError
from aotc_runtime.schema.labels import ExecutableKey
from aotc_runtime.serving.readiness import Difference, make_ready, run_fixtures
from aotc_runtime.serving.resident import make_resident
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.trust import read_policy
from aotc_runtime.verification.verify import judge, require, vouch


def outcome(bundle: Path, policy: Path, target: str, folder: Path) -> Answer:
    """What the executables of a target do, or why this host cannot run them.

    folder: with the calls of plain JAX, and the trials of padded and split ones, if there are any.

    Raises BundleFormatError, IntegrityError, TrustError.
    """
    # A gate that does not open says nothing about the host: the build itself is broken.
    with vouch(open_bundle(bundle), read_policy(policy), time.time()) as vouched:
        facts = detect_all(vouched.wanted(target).devices)
        judged = judge(vouched, facts, target)
        manifest, findings = judged.manifest, judged.choice.findings
        if manifest is not None and findings:
            vouched.finish()
            return Answer(
                unsuited=[finding.to_json() for finding in findings],
                differing=list(misread(manifest, folder)),
            )
        verified = require(judged).finish()
    resident = make_resident(verified)
    differing: list[Differing] = []
    try:
        ready = make_ready(resident)
    except ReadinessError as error:
        if any(finding.code != "AOTC-E701" for finding in error.findings):
            raise
        fixtures: Mapping[ExecutableKey, Difference] = run_fixtures(resident)
    else:
        fixtures = ready.fixtures
        differing += miscalled(ready, verified.manifest, folder)
    entries = read_plans(folder).get(target, [])
    return Answer(
        fixtures=list(fixtures.items()),
        differing=differing,
        trials=[try_entry(entry, resident, folder) for entry in entries],
    )


def main() -> int:
    end_with_parent()
    answers = answers_only()
    bundle, policy, target, folder = sys.argv[1:5]
    try:
        answer = outcome(Path(bundle), Path(policy), target, Path(folder))
    except AotcError as error:
        answer = Answer(failed=[finding.to_json() for finding in error.findings])
    assert "jax" not in sys.modules, "the runtime never imports jax"
    with answers:
        answers.write(b"\n" + encode(answer) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
