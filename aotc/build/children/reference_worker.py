"""`python -m aotc.build.children.reference_worker MANIFEST FOLDER [TARGET...]`: plain JAX on
the fixtures.

A process of its own with jax in its ordinary configuration, so that the reference shares nothing
with the capture but the inputs and weights in the staging folder.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import jax

from aotc.build.children import child
from aotc.build.children.progress import Progress
from aotc.build.children.trial_reference import PlainJax, begin_all, try_all
from aotc.build.staging import Staging
from aotc.build.watching import sources_only
from aotc.capture import own_files
from aotc.capture.arguments import flat_call, plan_call
from aotc.capture.source_files import changed
from aotc.capture.spreading import on_one_device
from aotc.capture.weights import Weights, load, read_arrays
from aotc.config.build_manifest import all_profiles_of, build_manifest_of
from aotc.errors import raise_if
from aotc.packing.weights import Array, write_tensors
from aotc.shapes.files import read_plans


def record(
    manifest_path: Path,
    targets: Sequence[str],
    staging: Staging,
    compiling: Executor,
    progress: Progress,
) -> None:
    """Write one fixture file per entry point and profile: inputs and reference outputs.

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
        for name in manifest.entry_points
    }
    with on_one_device(manifest.mesh):
        for name in manifest.entry_points:
            for sizes in all_profiles_of(manifest, name, targets):
                functions[name].begin(sizes)
        begin_all(plans, functions)
        for name, spec in manifest.entry_points.items():
            progress.started(f"running {name} ({spec.function})")
            for index, sizes in enumerate(all_profiles_of(manifest, name, targets)):
                inputs = read_arrays(staging.inputs(name, index))
                outputs = functions[name].at(sizes)(inputs)
                fixture = {f"inputs/{path}": array for path, array in inputs.items()}
                fixture |= {f"outputs/{path}": array for path, array in outputs.items()}
                where = f"{manifest.where('entry_points', name)} result"
                data = write_tensors(fixture, where=where)
                staging.fixture(name, index).write_bytes(data)
        try_all(plans, captured, manifest, staging, functions)
    sources = own_files.sources(manifest.root, sources_only.IMPORTED)
    raise_if(changed(captured.sources, sources.items()))


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
    manifest_path, folder, targets = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    staging = Staging(folder)
    compiling = ThreadPoolExecutor(staging.read_threads())
    return child.work(folder, partial(record, manifest_path, targets, staging, compiling))


if __name__ == "__main__":
    child.end(main())
