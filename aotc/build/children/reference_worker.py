"""`python -m aotc.build.children.reference_worker MANIFEST FOLDER [TARGET...]`: plain JAX on
the fixtures.

A process of its own with jax in its ordinary configuration, so that the reference shares nothing
with the capture but the inputs and weights in the staging folder.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import jax

from aotc.build.children import child
from aotc.build.children.progress import Progress
from aotc.build.children.trial_reference import PlainJax, begin_all, try_all
from aotc.build.staging import Staging
from aotc.build.watching import sources_only
from aotc.capture import explain, own_files, raised
from aotc.capture.arguments import flat_call, plan_call
from aotc.capture.source_files import changed
from aotc.capture.spreading import on_one_device
from aotc.capture.weights import Weights, load, read_arrays
from aotc.config.build_manifest import BuildManifest, build_manifest_of
from aotc.errors import CaptureError, raise_if
from aotc.packing.weights import Array, write_tensors
from aotc.shapes.files import read_plans
from aotc.stages import CapturedEntryPoint
from aotc_runtime.errors import AotcError, Finding
from aotc_runtime.schema.labels import label


def record(
    manifest_path: Path,
    staging: Staging,
    compiling: Executor,
    progress: Progress,
) -> None:
    """Write one fixture file per captured entry point and profile: inputs and reference outputs,
    which are recorded ones where the program does not run here.

    Raises CaptureError, ParityError; AOTC-E840 if this is not the program that was captured.
    """
    manifest = build_manifest_of(manifest_path, staging.read_manifest())
    jax.config.update("jax_enable_x64", manifest.enable_x64)
    weights = {name: load(name, manifest) for name in manifest.weights}
    values = {
        name: {
            tensor: array
            for path in staging.weights(name)
            for tensor, array in read_arrays(path).items()
        }
        for name in weights
    }
    _require_steady(weights, values, staging)
    captured, plans = staging.read_program(), read_plans(staging.folder)
    functions = {
        name: PlainJax(
            plan_call(name, manifest),
            partial(flat_call, weights=weights, manifest=manifest),
            values,
            compiling,
        )
        for name in captured.entry_points
    }
    failed: list[Finding] = []
    with on_one_device(manifest.mesh):
        for name, entry_point in captured.entry_points.items():
            for profile in entry_point.profiles if not entry_point.recorded else ():
                functions[name].begin(profile.sizes)
        begin_all(plans, functions)
        for name, entry_point in captured.entry_points.items():
            progress.started(f"running {name} ({entry_point.function})")
            try:
                _run(entry_point, functions[name], manifest, staging)
            except CaptureError as error:
                raised.show_cause(error)
                failed += error.findings
        raise_if(failed)
        try_all(plans, captured, manifest, staging, functions)
    sources = own_files.sources(manifest.root, sources_only.IMPORTED)
    raise_if(changed(captured.sources, sources.items()))


def _run(
    entry_point: CapturedEntryPoint, function: PlainJax, manifest: BuildManifest, staging: Staging
) -> None:
    """Write the fixture of every profile. Raises CaptureError (AOTC-E842) for a program that plain
    JAX cannot run here.
    """
    name = entry_point.name
    for index, profile in enumerate(entry_point.profiles):
        inputs = read_arrays(staging.inputs(name, index))
        if entry_point.recorded:
            outputs = read_arrays(staging.results(name, index))
        else:
            try:
                outputs = function.at(profile.sizes)(inputs)
            except AotcError:
                raise
            except (Exception, SystemExit) as error:
                where = label(name, profile.sizes)
                raise CaptureError(explain.not_run(error, where, manifest.root)) from error
        fixture = {f"inputs/{path}": array for path, array in inputs.items()}
        fixture |= {f"outputs/{path}": array for path, array in outputs.items()}
        where = f"{manifest.where('entry_points', name)} result"
        staging.fixture(name, index).write_bytes(write_tensors(fixture, where=where))


def _require_steady(
    weights: Mapping[str, Weights],
    values: Mapping[str, Mapping[str, Array]],
    staging: Staging,
) -> None:
    """Mark the program as unsteady if it made other weights here than in the capture process: then
    they depend on something that no recorder saw, and the result must not be cached.
    """
    for name, loaded in weights.items():
        if any(
            values[name][path].tobytes() != array.tobytes()
            for path, array in loaded.tensors.items()
        ):
            reason = f"weights {name} have other values each time"
            staging.unsteady.write_text(reason, "utf-8")


def main() -> int:
    manifest_path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    staging = Staging(folder)
    compiling = ThreadPoolExecutor(staging.read_threads())
    return child.work(folder, partial(record, manifest_path, staging, compiling))


if __name__ == "__main__":
    child.end(main())
