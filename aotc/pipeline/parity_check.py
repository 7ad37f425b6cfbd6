"""Parity: each target's executables run fixtures and trials in a process, from a staging bundle.

Results of the same executables in an earlier build on this host are cached.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aotc.base.child_processes import Processes
from aotc.base.errors import raise_if
from aotc.base.temporary_files import hard_link, remove_folder
from aotc.base.workers import worker_environment, worker_parent
from aotc.base.workers.forked_workers import zygotes_of
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import endorsement
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.bundle_writer import Assembled, TargetParts, add_attestation, assemble
from aotc.bundle.write.oci_descriptors import layout_index
from aotc.check import parity_process, plain_structures
from aotc.check.parity_process import Ran
from aotc.check.trial_records import FIXTURE, Call, call_file, found_file, tried_file
from aotc.check.trial_truth import Side, Verdict
from aotc.check.trial_verdict import At, leaks
from aotc.pipeline import code_identity
from aotc.pipeline.cached_tasks import Kind, Task, Tasks
from aotc.pipeline.children.program_worker import Job
from aotc.pipeline.scratch_folder import Scratch, no_scratch
from aotc.pipeline.task_pool import Workers
from aotc.pipeline.user_processes import PROGRAM_WORKER
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import chunks_of, sha256
from aotc_runtime.engines.xla.xla_features import PRODUCTS_ALONE
from aotc_runtime.formats import oci_layout
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.manifest_labels import executable_key, label

PACKAGES = ("cryptography", "jaxlib", "ml_dtypes", "msgspec", "numpy")
"""Packages that a process which loads a bundle imports: their versions are parts of the key."""

CACHED_PLATFORMS = ("cpu",)
"""Platforms whose parity is cached. Of others, what runs the executables (devices, drivers) is in
no key here."""


TRUTH_WORKER = "aotc.pipeline.children.truth_worker"

SECONDS_MAX, OPINION_SECONDS_MAX = 1800, 60

OPINIONS_MAX = 4
"""Calls that the interpreter is asked about."""

AS_WRITTEN = {**PRODUCTS_ALONE, "xla_disable_hlo_passes": "algsimp"}
"""Options for XLA to compute what a module says: otherwise zero times NaN may be zero."""


class TruthJob(Struct, frozen=True):
    """The job of `truth_worker`.

    `tolerances` has rtol and atol by entry point; `options` are XLA's for each way to compute the
    truth, none for the interpreter.
    """

    target: str
    calls: tuple[Call, ...]
    tolerances: dict[str, tuple[float, float]]
    options: tuple[dict[str, str], ...]


class TruthProcess:
    """Evaluates the calls of one target's executables, named by `target`."""

    def __init__(self, scratch: Scratch, processes: Processes, manifest: BundleManifest) -> None:
        self._scratch, self._processes, self.target = scratch, processes, manifest.target.name
        self._tolerances = {
            name: (float(each.tolerance.rtol), float(each.tolerance.atol))
            for name, each in manifest.entry_points.items()
        }

    def __call__(self, calls: Sequence[Call]) -> list[Verdict]:
        """Return the verdict on each call, in their order.

        Raises ParityError (AOTC-E952) if the process ends early, unless the fixture's call is one
        of them: that has failed without a verdict.
        """
        folder = self._scratch.folder
        left = [c for c in calls if found_file(folder, self.target, c).path.exists()]
        verdicts: dict[Call, Verdict] = {}
        every: tuple[tuple[dict[str, str], ...], ...] = (
            (PRODUCTS_ALONE, AS_WRITTEN),
            (PRODUCTS_ALONE,),
        )
        for options in every:
            try:
                found = self._ask(left, options, list[Verdict], SECONDS_MAX)
            except worker_parent.CrashedError as crash:
                if options == every[-1] and all(call.inputs != FIXTURE for call in calls):
                    where = f"{', '.join(map(str, left))} for {self.target}"
                    cause = "float64-process-failed"
                    raise parity_process.ended(where, crash, SECONDS_MAX, cause) from crash
            else:
                verdicts = dict(zip(left, found, strict=True))
                break
        for call in left[:OPINIONS_MAX]:
            if call in verdicts and not verdicts[call].is_settled:
                with suppress(worker_parent.CrashedError):
                    (opinion,) = self._ask([call], (), list[Side], OPINION_SECONDS_MAX)
                    verdicts[call] = replace(verdicts[call], opinion=opinion)
        return [verdicts.get(call, Verdict("", False, 0)) for call in calls]

    def _ask[A](
        self,
        calls: Sequence[Call],
        options: tuple[dict[str, str], ...],
        answer_type: type[A],
        seconds: float,
    ) -> A:
        folder = self._scratch.folder
        job = TruthJob(self.target, tuple(calls), self._tolerances, options)
        return worker_parent.run(
            zygotes_of(PROGRAM_WORKER),  # which has imported jax
            Job(TRUTH_WORKER, str(folder), msgspec.msgpack.encode(job)),
            answer_type,
            within=folder,
            environment=worker_environment.clean({"JAX_PLATFORMS": "cpu"}),
            processes=self._processes,
            seconds=seconds,
        )


class ParityCheck:
    """The parity of every target of a build; `tried` has the trials of each in plain JAX.

    `at` names places of the build manifest.
    """

    def __init__(self, tasks: Tasks, workers: Workers, scratch: Scratch, at: At) -> None:
        self._tasks, self._workers, self._scratch, self._at = tasks, workers, scratch, at
        self.tried = tried_file(scratch.folder).read({})

    def begin(self, parts: Sequence[TargetParts]) -> dict[str, Future[Ran]]:
        """Start the targets whose result is not in the cache; the result of each, by target.

        The futures raise ParityError.
        """
        started: dict[str, Future[Ran]] = {}
        missing: list[tuple[Task, TruthProcess]] = []
        for part in parts:
            truth = TruthProcess(self._scratch, self._workers.processes, part.manifest)
            task = Task(Kind.PARITY, f"of {truth.target}", self.parts_of(part))
            ran = self._tasks.recall(task.key, Ran)
            if ran is None:
                missing.append((task, truth))
            else:
                self._tasks.note(task, cached=True)
                started[truth.target] = Future()
                started[truth.target].set_result(ran)
        if missing:
            temporary = pack_temporary(parts, self._scratch.folder)
            for task, truth in missing:
                started[truth.target] = self._workers.submit(
                    partial(self._run, task, truth, temporary)
                )
        return started

    def _run(self, task: Task, truth: TruthProcess, temporary: TemporaryBundle) -> Ran:
        """Raises ParityError: AOTC-E955 a padded call, E956 a split one with another result."""
        with self._tasks.timed(task) as keeping:
            ran = parity_process.run(
                temporary.bundle,
                temporary.policy,
                truth.target,
                self._scratch.folder,
                self._workers.processes,
                truth,
            )
            tried = self.tried.get(truth.target, [])
            if ran.not_run:
                ran = replace(ran, outcomes=tuple(o for each in tried for o in each.in_jax()))
            what = f"the executables for {truth.target}"
            raise_if(f for each in tried for f in leaks(each.entry, ran.outcomes, what, self._at))
            if ran.lasting and task.parts["platform"] in CACHED_PLATFORMS:
                keeping(ran)
        return ran

    def parts_of(self, part: TargetParts) -> dict[str, str]:
        """Return cache key components: all that the results of a target's executables depend on."""
        return {
            **code_identity.toolchain_code(),
            **dict(code_identity.package_parts(PACKAGES)),
            **code_identity.host_parts(),
            **code_identity.library_parts(os.environ),
            **dict(manifest_parts(part.manifest)),
            **dict(self._call_parts(part.manifest)),
        }

    def _call_parts(self, manifest: BundleManifest) -> Iterator[tuple[str, str]]:
        """Yield components of plain JAX's calls, which are made again, and of planned trials."""
        folder = self._scratch.folder
        for name, entry_point in manifest.entry_points.items():
            for index, profile in enumerate(entry_point.profiles):
                key = executable_key(name, profile.sizes)
                path = plain_structures.call_file(folder, key).path
                yield f"call {name} {index}", sha256(path.read_bytes())
        for tried in self.tried.get(manifest.target.name, []):
            yield f"trials of {tried.entry.entry_point}", sha256(msgspec.msgpack.encode(tried))
            for call in {trial.call: None for trial, plain in tried.pairs() if not plain.skipped}:
                path = call_file(folder, call)
                yield f"call {call.key.label} of {call.inputs}", sha256(path.read_bytes())


def manifest_parts(manifest: BundleManifest) -> Iterator[tuple[str, str]]:
    """Yield the cache key components of parity: every blob by its name, and the manifest's rest."""
    yield "platform", manifest.target.platform
    for name, entry_point in manifest.entry_points.items():
        for profile in entry_point.profiles:
            where = label(name, profile.sizes)
            yield f"executable {where}", profile.executable.digest
            yield f"fixture {where}", profile.fixture.digest
    for name, weights in manifest.weights.items():
        yield f"weights {name}", sha256("\n".join(ref.digest for ref in weights.blobs).encode())
    rest = _without_blobs(msgspec.to_builtins(manifest))
    for key in ("name", "version", "built_with", "format_version"):
        rest.pop(key)
    rest.pop("assets", None)
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
    """Return a document without digests and sizes of blobs, which are components themselves."""
    if isinstance(document, dict):
        if document.keys() == {"digest", "size"}:
            return None
        return {key: _without_blobs(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [_without_blobs(value) for value in document]
    return document


BUNDLE = "temporary"
"""A layout folder, which shares the files of the weights with the build's scratch folder."""


@dataclass(frozen=True, slots=True)
class TemporaryBundle:
    """A temporary bundle and a trust policy for it, whose key was discarded after one signature."""

    bundle: Path
    policy: Path


def pack_temporary(parts: Sequence[TargetParts], folder: Path) -> TemporaryBundle:
    """Write a bundle into a folder, signed with a key that is discarded when this returns."""
    signer = LocalSigner.ephemeral()
    temporary = TemporaryBundle(folder / BUNDLE, folder / "trust.toml")
    assembled = assemble(parts)
    endorsed = attest(assembled.root.digest, "temporary", endorsement(), signer)
    try:
        _lay_out(temporary.bundle, assembled, endorsed.envelope)
    except OSError as error:
        # Nobody has asked for this file: what has no room is the folder.
        raise no_scratch(error) from error
    policy = policy_text(parts[0].manifest.name, [signer.public_pem()])
    # What may be compiled is for the policy of the deployment to say; nothing is, in a build.
    temporary.policy.write_text(f'furthest_fallback = "compile"\n{policy}', "utf-8")
    return temporary


def _lay_out(folder: Path, assembled: Assembled, envelope: bytes) -> None:
    """Write an OCI layout with one attestation over what was there. Raises OSError."""
    remove_folder(folder)
    (folder / oci_layout.BLOB_FOLDER).mkdir(parents=True)
    blobs = dict(assembled.blobs)
    reference = add_attestation(assembled.root, envelope, blobs)
    index = layout_index(assembled.root, [reference], assembled.manifests)
    (folder / oci_layout.LAYOUT_FILE).write_bytes(
        canonical_json.encode(oci_layout.Layout(oci_layout.LAYOUT_VERSION))
    )
    (folder / oci_layout.INDEX_FILE).write_bytes(canonical_json.encode(index))
    for digest, blob in blobs.items():
        place = folder / oci_layout.BLOB_FOLDER / digest.removeprefix("sha256:")
        if blob.file is None or not hard_link(blob.file, place):
            with place.open("wb") as stream:
                for piece in chunks_of(blob.data):
                    stream.write(piece)
