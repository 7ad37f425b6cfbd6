"""The two processes of a build that run the user's code: the capture, and plain JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from aotc import constants
from aotc.build import child
from aotc.build.meter import OnStage
from aotc.build.staging import Staging
from aotc.build.workers import Workers
from aotc.cache.keys import Kind, Task
from aotc.cache.tasks import ALWAYS, Tasks
from aotc.config.build_manifest import BuildManifest
from aotc.stages import CapturedEntryPoint, CapturedProgram

type OnOutput = Callable[[str, str], None]
"""What a process that ran the user's code printed: which process, text."""


def capture(
    manifest: BuildManifest,
    targets: Sequence[str],
    staging: Staging,
    tasks: Tasks,
    workers: Workers,
    on_captured: Callable[[CapturedEntryPoint], None],
    on_stage: OnStage,
    on_output: OnOutput,
) -> CapturedProgram:
    """Trace everything. targets: as written.  on_captured: gets each entry point as soon as it is
    there. Raises CaptureError and BuildManifestError.
    """
    total, done = len(manifest.entry_points), 0

    def advance(name: str) -> None:
        nonlocal done
        done += 1
        on_stage("capture", done, total)
        on_captured(staging.read_entry_point(name))

    def trace() -> None:
        with tasks.timed(Task(Kind.CAPTURE, "", {}), ALWAYS):
            child.run(
                "aotc.build.capture_worker",
                [str(manifest.path), str(staging.folder), *targets],
                staging.folder,
                child.clean_environment(
                    {"JAX_PLATFORMS": "cpu", constants.CONSTANTS_AS_ARGUMENTS: "1"}
                ),
                failure_code="AOTC-E835",
                doing="the capture process",
                on_line=advance,
                on_output=lambda text: on_output("capture", text),
                processes=workers.processes,
            )

    on_stage("capture", 0, total)
    workers.submit(trace, urgent=True).result()
    return staging.read_program()


def reference(
    manifest: BuildManifest,
    targets: Sequence[str],
    staging: Staging,
    tasks: Tasks,
    workers: Workers,
    on_output: OnOutput,
) -> Future[None]:
    """Begin plain JAX on the fixtures and trials. The future raises CaptureError, ParityError."""

    def compute() -> None:
        with tasks.timed(Task(Kind.REFERENCE, "", {}), ALWAYS):
            child.run(
                "aotc.build.reference_worker",
                [str(manifest.path), str(staging.folder), *targets],
                staging.folder,
                child.clean_environment({"JAX_PLATFORMS": "cpu"}),
                failure_code="AOTC-E836",
                doing="plain JAX on the fixtures",
                on_line=lambda _: None,
                on_output=lambda text: on_output("reference", text),
                processes=workers.processes,
            )

    return workers.submit(compute, urgent=True)
