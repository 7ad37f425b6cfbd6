"""Parity: the executables of each target run their fixtures and trials in a process of their own.

What the same executables gave in an earlier build on this host comes from the cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from aotc.base.temporary_files import remove_folder
from aotc.bundle.write.bundle_writer import TargetParts
from aotc.check import parity_process, plain_structures, value_trials
from aotc.check.padding import trial_files
from aotc.check.padding.trial_verdict import At
from aotc.check.parity_process import Ran
from aotc.pipeline import padding_trials
from aotc.pipeline.cache.cache_keys import Kind, Task
from aotc.pipeline.cache.cached_tasks import Tasks
from aotc.pipeline.policy_proofs import EntryProofs
from aotc.pipeline.provisional_bundle import BUNDLE, ProvisionalBundle, pack_provisional
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.tasks import code_identity
from aotc.pipeline.tasks.task_pool import Workers
from aotc.pipeline.truth_check import Judge
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.manifest_labels import executable_key, label

PACKAGES = ("cryptography", "jaxlib", "ml_dtypes", "msgspec", "numpy")
"""Packages that a process which loads a bundle imports: their versions are parts of the key."""

CACHED_PLATFORMS = ("cpu",)
"""Platforms whose parity is cached. Of others, what runs the executables (devices, drivers) is in
no key here."""


class ParityCheck:
    """The parity of every target of a build."""

    def __init__(self, tasks: Tasks, workers: Workers, scratch: Scratch) -> None:
        self._tasks, self._workers, self._scratch = tasks, workers, scratch
        self._plans = trial_files.read_plans(scratch.folder)

    def begin(self, parts: Sequence[TargetParts]) -> dict[str, Future[Ran]]:
        """Start the targets whose result is not in the cache; the result of each, by target.

        The futures raise ParityError.
        """
        manifests = {part.manifest.target.name: part.manifest for part in parts}
        tasks = {part.manifest.target.name: self._task(part) for part in parts}
        known = {target: self._recall(task) for target, task in tasks.items()}
        provisional: ProvisionalBundle | None = None
        if None in known.values():
            provisional = pack_provisional(parts, self._scratch.folder)
        started: dict[str, Future[Ran]] = {}
        for target, task in tasks.items():
            ran = known[target]
            if ran is not None:
                self._tasks.note(task, cached=True)
                started[target] = Future()
                started[target].set_result(ran)
            elif provisional is not None:
                started[target] = self._workers.submit(
                    partial(self._run, task, manifests[target], provisional)
                )
        return started

    def judge(self, found: Mapping[str, Ran], at: At) -> dict[str, EntryProofs]:
        """The proofs of each target's policies. found: what its executables did, by target.

        Raises ParityError: AOTC-E955 a padded call, E956 a split one that gives another result.
        """
        remove_folder(self._scratch.folder / BUNDLE)
        tried = {target: None if ran.not_run else ran.trials for target, ran in found.items()}
        return padding_trials.judge(self._scratch, tried, at)

    def _recall(self, task: Task) -> Ran | None:
        return self._tasks.recall(task.key, Ran)

    def _run(self, task: Task, manifest: BundleManifest, provisional: ProvisionalBundle) -> Ran:
        with self._tasks.attempt(task.kind, task.of), self._tasks.timed(task) as keeping:
            ran = parity_process.run(
                provisional.bundle,
                provisional.policy,
                manifest.target.name,
                self._scratch.folder,
                self._workers.processes,
                Judge(self._scratch, self._workers.processes, manifest),
            )
            if ran.lasting and task.parts["platform"] in CACHED_PLATFORMS:
                keeping(ran)
        return ran

    def _task(self, part: TargetParts) -> Task:
        target = part.manifest.target.name
        parts = {
            **code_identity.toolchain_code(),
            **dict(code_identity.package_parts(PACKAGES)),
            **code_identity.host_parts(),
            **code_identity.library_parts(os.environ),
            **dict(manifest_parts(part.manifest)),
            **dict(self._plain_parts(part.manifest)),
            **dict(self._trial_parts(target)),
            **dict(self._value_parts(part.manifest)),
        }
        return Task(Kind.PARITY, f"of {target}", parts)

    def _plain_parts(self, manifest: BundleManifest) -> Iterator[tuple[str, str]]:
        """Parts of a key: the calls of plain JAX, which are made again."""
        for name, entry_point in manifest.entry_points.items():
            for index, profile in enumerate(entry_point.profiles):
                key = executable_key(name, profile.sizes)
                yield (
                    f"call {name} {index}",
                    _file(plain_structures.call_file(self._scratch.folder, key)),
                )

    def _trial_parts(self, target: str) -> Iterator[tuple[str, str]]:
        """Parts of a key: the plan of the trials, and each call with its results in plain JAX."""
        for entry in self._plans.get(target, []):
            plan = sha256(msgspec.msgpack.encode(entry))
            yield f"trials of {entry.entry_point}", plan
            for trial in entry.trials:
                path = trial_files.call_file(self._scratch.folder, entry.entry_point, trial)
                where = label(entry.entry_point, trial.sizes)
                yield f"call {where} of {trial.inputs}", _file(path)

    def _value_parts(self, manifest: BundleManifest) -> Iterator[tuple[str, str]]:
        """Parts of a key: the plan of the value trials, and each with its results in plain JAX."""
        plans = value_trials.read_plans(self._scratch.folder)
        for name, entry_point in manifest.entry_points.items():
            for profile in entry_point.profiles:
                key = executable_key(name, profile.sizes)
                plan = plans.get(key.label, value_trials.PlannedValues())
                yield f"value trials of {key.label}", sha256(msgspec.msgpack.encode(plan))
                for kind in plan.kinds:
                    path = value_trials.value_file(self._scratch.folder, key, kind)
                    yield f"inputs {kind} of {key.label}", _file(path)


def _file(path: Path) -> str:
    return sha256(path.read_bytes())


def manifest_parts(manifest: BundleManifest) -> Iterator[tuple[str, str]]:
    """What a bundle manifest says that parity depends on: every blob by its name, and the rest."""
    yield "platform", manifest.target.platform
    for name, entry_point in manifest.entry_points.items():
        for profile in entry_point.profiles:
            where = label(name, profile.sizes)
            yield f"executable {where}", profile.executable.digest
            yield f"fixture {where}", profile.fixture.digest
    for name, weights in manifest.weights.items():
        yield f"weights {name}", sha256("\n".join(ref.digest for ref in weights.blobs).encode())
    rest = _without_blobs(msgspec.to_builtins(manifest))
    for told in ("name", "version", "built_with", "format_version"):
        rest.pop(told)
    for name, entry_point in sorted(rest.pop("entry_points").items()):
        yield f"memory and cost of {name}", _digest(entry_point.pop("profiles"))
        yield f"signature and tolerance of {name}", _digest(entry_point)
    for key, value in sorted(rest.items()):
        yield _NAMES.get(key, key), _digest(value)


_NAMES = {"weights": "shapes of weights", "requires": "requirements of the host"}
"""Keys of a bundle manifest as `--explain` calls them, where they do not speak for themselves."""


def _digest(document: Any) -> str:
    return sha256(msgspec.json.encode(document, order="sorted"))


def _without_blobs(document: Any) -> Any:
    """A document without the digests and sizes of blobs, which are parts of the key by
    themselves.
    """
    if isinstance(document, dict):
        if document.keys() == {"digest", "size"}:
            return None
        return {key: _without_blobs(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [_without_blobs(value) for value in document]
    return document
