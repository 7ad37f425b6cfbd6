"""`python -m aotc.check.parity_worker FOLDER`: run fixtures, calls and trials.

Uses the runtime alone, exactly as a server would, up to the comparison itself: what is beyond its
tolerance is reported, for the build to judge. Calls are those of plain JAX, passed to the loader's
own entry points and compared in their structures.

A zygote that has imported the loader and jaxlib, and has started no engine, forks it for a build.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np

from aotc.base.errors import finding
from aotc.base.workers import confined_process
from aotc.base.workers.worker_child import Progress, answer
from aotc.check.evaluation_files import Batch, Prepared, prepared_file, write_results
from aotc.check.metrics import metric_of
from aotc.check.parity_calls import call_differences, structure_differences
from aotc.check.parity_process import Answer, Job
from aotc.check.parity_trials import run_trials
from aotc.check.plain_structures import Leaf, leaf_of
from aotc.check.trial_records import Array
from aotc_runtime.base.errors import Finding, ReadinessError
from aotc_runtime.engines import engine_survey
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.schema.manifest_labels import ExecutableKey, arguments_of
from aotc_runtime.serving.flattened_arguments import flatten
from aotc_runtime.serving.loaded_bundle import LoadedBundle, make_ready
from aotc_runtime.serving.readiness import Difference, run_all
from aotc_runtime.serving.resident_bundle import make_resident
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.verify_bundle import accept_bundle, evaluate, require


def score(
    loaded: LoadedBundle, prepared: Prepared, target: str, folder: Path, progress: Progress
) -> Leaf | None:
    """Return the rows of a built-in metric; None for a user's, whose results are written instead.

    `folder` is the scratch folder with the `prepared` data; `progress` reports every call. Raises
    CaptureError: AOTC-E847 for samples that no profile serves, E849 for results without a metric.
    """
    entry_point = loaded[prepared.entry_point]
    spec, where = entry_point.spec, f"{prepared.where} for {target}"

    def call(batch: Batch) -> Array:
        leaves = [batch.inputs.get(each.path) for each in spec.inputs]
        positional, named = arguments_of(entry_point.parameters, leaves)
        flat = dict(flatten(spec.result, entry_point(*positional, **named), "result"))
        progress.finished(prepared.entry_point)
        return np.asarray(flat[prepared.output])

    profiles = [profile.sizes for profile in spec.profiles]
    batches = prepared.batches(folder, profiles, where)
    results = ((call(batch), batch.labels) for batch in batches)
    metric = metric_of(prepared.metric)
    if metric.rows is None:
        write_results(folder, target, prepared.entry_point, results)
        return None
    return leaf_of(metric.score(results, where))


COMPARED = ("AOTC-E701", "AOTC-E704")
"""The readiness finding about results, which the build evaluates itself."""


def outcome(job: Job, progress: Progress) -> Answer:
    """Return what the executables of a target do, or why this host cannot run them.

    Raises BundleFormatError, IntegrityError, TrustError.
    """
    target, folder = job.target, Path(job.folder)
    # A gate that does not open says nothing about the host: the build itself is broken.
    source, policy = open_bundle(Path(job.bundle)), read_policy(Path(job.policy))
    with accept_bundle(source, policy, time.time()) as accepted:
        if not any(accepted.facts_for(target).platforms.values()):
            # Before any thread of an engine. The drivers of accelerators write to devices.
            confined_process.keep_secret(*job.secrets)
            confined_process.shut_off(job.folder)
        facts = detect_all(accepted.facts_for(target).devices)
        evaluated = evaluate(accepted, facts, target)
        manifest, findings = evaluated.manifest, evaluated.choice.findings
        if manifest is not None and findings:
            accepted.finish()
            return Answer(
                unsuited=[each.to_json() for each in findings],
                differing=list(structure_differences(manifest, folder)),
            )
        verified = require(evaluated).finish()
    resident = make_resident(verified)
    if job.evaluates:
        ready = make_ready(resident)
        prepared = prepared_file(folder).read()
        scores = {e.entry_point: score(ready, e, target, folder, progress) for e in prepared}
        return Answer(scores=scores)
    differing: list[Finding] = []
    try:
        ready = make_ready(resident)
    except ReadinessError as error:
        if any(each.code not in COMPARED for each in error.findings):
            raise
        fixtures: Mapping[ExecutableKey, Difference] = {
            profile.key: ran.difference for profile, ran in run_all(resident)
        }
        differing += [
            finding("AOTC-E959", each.where or "", each.found, expected=each.expected)
            for each in error.findings
            if each.code == "AOTC-E704"
        ]
    else:
        fixtures = ready.fixtures
        differing += call_differences(ready, verified.manifest, folder)
    ran = run_trials(resident, target, folder, fixtures)
    assert "jax" not in sys.modules, "the runtime never imports jax"
    ran.differing[:0] = differing
    return ran


def prepare() -> None:
    """Import what a load imports later, too, and ask once which engines are installed."""
    engine_survey.installed_engines()
    with suppress(ImportError):  # which the load says
        import_module("aotc_runtime.engines.xla.xla_client")
        import_module("jaxlib.xla_client")


def main() -> None:
    """Do the job."""
    answer(Job, outcome)


if __name__ == "__main__":
    main()
