"""Measures an entry point of several bundles: `python -m aotc.commands.tune.precision_worker`."""

from pathlib import Path

from msgspec import Struct

from aotc.base.workers.worker_child import Progress, answer
from aotc.commands.tune.tuning_choice import together
from aotc.commands.tune.tuning_worker import call_of, resident_of, turns
from aotc_runtime.verification.policy_reader import read_policy


class Job(Struct, frozen=True):
    """The job of the worker: bundles by precision, and the policy that accepts them."""

    bundles: dict[str, str]
    policy: str
    entry_point: str


def measure(job: Job, progress: Progress) -> dict[str, list[float]]:
    """Return microseconds of a call by precision and round, over all profiles.

    A bundle that this host cannot run is left out.
    """
    policy = read_policy(Path(job.policy))
    found = {name: resident_of(bundle, policy, None) for name, bundle in job.bundles.items()}
    residents = {name: each for name, each in found.items() if not isinstance(each, str)}
    rounds = [
        turns({name: call_of(each, key) for name, each in residents.items()}, progress)
        for each in [*residents.values()][:1]
        for profile in each.entry_points[job.entry_point].profiles
        for key in [profile.key]
    ]
    return {name: together([each[name] for each in rounds]) for name in residents}


if __name__ == "__main__":
    answer(Job, measure)
