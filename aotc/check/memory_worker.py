"""`python -m aotc.check.memory_worker FOLDER`: what calls need.

Each executable is called with its fixture, as a server does: {"predict[batch=8]": bytes}. Nothing
for a host that cannot run the target, or where it cannot be measured.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from aotc.base.workers.worker_child import Progress, answer
from aotc.check.memory_process import Job
from aotc.check.peak_memory import Unmeasurable, peak
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.engines.xla import xla_engine
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.manifest_labels import arguments_of
from aotc_runtime.serving.loaded_bundle import LoadedBundle, make_ready
from aotc_runtime.serving.resident_bundle import ResidentBundle, make_resident
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.verify_bundle import fit, vouch


def measure(resident: ResidentBundle, loaded: LoadedBundle) -> dict[str, int]:
    """Bytes by executable: what a call allocates, and its inputs, which the caller has."""
    found: dict[str, int] = {}
    for name, entry_point in resident.entry_points.items():
        for profile in entry_point.profiles:
            views = tensor_views(resident.verified.blob(profile.record.fixture).data, profile.label)
            leaves = [views[f"inputs/{tensor.path}"][0] for tensor in entry_point.spec.inputs]
            positional, named = arguments_of(loaded[name].parameters, leaves)
            taken = peak(partial(loaded[name], *positional, **named))
            # Of inputs that are neither taken in place nor left out, what was allocated has copies.
            copied = () if profile.direct is not None else profile.arguments
            uncopied = [leaf for index, leaf in enumerate(leaves) if index not in copied]
            found[profile.label] = taken + sum(leaf.nbytes for leaf in uncopied)
    return found


def measured(job: Job, progress: Progress) -> dict[str, int]:
    """Bytes by executable. Raises AotcError for a target that this host cannot run."""
    source, trusted = open_bundle(Path(job.bundle)), read_policy(Path(job.policy))
    with vouch(source, trusted, time.time()) as vouched:
        devices = vouched.wanted(job.target).devices
        xla_engine.processor(job.threads, devices)
        verified = fit(vouched, detect_all(devices), job.target).finish()
    resident = make_resident(verified)
    with suppress(Unmeasurable):
        return measure(resident, make_ready(resident))
    return {}


if __name__ == "__main__":
    answer(Job, measured)
