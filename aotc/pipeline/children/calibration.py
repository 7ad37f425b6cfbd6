"""Calibrates the static scales of factors that calls round to 8 bits, on the evaluation data."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc.base.errors import refusal
from aotc.base.evidence import Calibration
from aotc.base.stages import CapturedEntryPoint, CapturedProfile
from aotc.capture.fixture_inputs import mask_and_length_arrays
from aotc.capture.portable_stablehlo import portable
from aotc.check.evaluation_files import LABELS, Array, Prepared, block_file
from aotc.check.trial_records import read_arrays
from aotc.compile.mlir import mlir_context
from aotc.compile.precision.activations import keep_largest_factors, unit_of
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.children.evaluation_worker import DataWriter, Resolve, read_blocks
from aotc.pipeline.children.truth_worker import results_of
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.xla.xla_cpu_device import Processor
from aotc_runtime.schema.bundle_manifest import InputArgument, WeightArgument

SAMPLES_MAX = 512
"""Samples that are called, in whole batches."""

type Name = tuple[str, str]
"""A weight: its set, and its name there."""


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Calibrates entry points with an evaluation.

    `files` has the digests of the files that the capture read, and `tensor` returns a weight.
    """

    manifest: BuildManifest
    folder: Path
    files: Mapping[str, str]
    resolve: Resolve
    tensor: Callable[[Name], Array]

    def calibrate(self, captured: CapturedEntryPoint, weights: Collection[Name]) -> Calibration:
        """Return the static scales of the other factors in products with these weights.

        Raises CaptureError: AOTC-E829, E840, E847.
        """
        source = read_blocks(captured.name, self.manifest, self.files, self.resolve)
        data = DataWriter(captured, self.manifest, self.folder).write(source, "")
        largest: dict[Name, float] = {}
        samples = 0
        for profile in captured.profiles:
            calls = []
            for count, call in self._calls(captured, profile, data):
                if samples < SAMPLES_MAX:
                    samples += count
                    calls.append(call)
            for weight, most in _largest(profile, weights, calls) if calls else ():
                # NaN is larger than all others.
                largest[weight] = float(np.maximum(largest.get(weight, 0.0), most))
        if not samples or not np.isfinite([*largest.values()]).all():
            found = "factors that are NaN or infinite" if samples else "samples of other sizes"
            raise refusal("AOTC-E847", data.where, found, expected="samples that calibrate")
        units = {" ".join(weight): repr(unit_of(most)) for weight, most in largest.items()}
        return Calibration(data=data.digest, samples=samples, units=units)

    def _calls(
        self, captured: CapturedEntryPoint, profile: CapturedProfile, data: Prepared
    ) -> Iterator[tuple[int, list[Array]]]:
        """Yield the number of samples and the arguments of each call that the profile serves best.

        A smaller batch is filled up with its own samples.
        """
        by_loader = mask_and_length_arrays(
            self.manifest.entry_points[captured.name], profile.sizes, profile.sizes
        )
        taken = [
            each.leaf if isinstance(each, InputArgument) else self.tensor((each.set, each.tensor))
            for each in profile.arguments
        ]
        axis = str(data.axis)
        for number, block in enumerate(data.blocks):
            alike = [p.sizes for p in captured.profiles if {**p.sizes, **block.sizes} == p.sizes]
            if max(alike, key=lambda sizes: sizes.get(axis, 0), default={}) != profile.sizes:
                continue
            arrays = read_arrays(block_file(self.folder, captured.name, number))
            del arrays[LABELS]
            size = profile.sizes.get(axis) or int(axis)
            for start in range(0, block.samples, size):
                part = slice(start, min(start + size, block.samples))
                given = by_loader | {
                    path: array[part] if path in data.counted else array
                    for path, array in arrays.items()
                }
                leaves = [
                    np.resize(given[leaf.path], shape)
                    for leaf, shape in zip(captured.inputs, profile.input_shapes, strict=True)
                ]
                arguments = (leaves[a] if isinstance(a, int) else a for a in taken)
                yield part.stop - start, [*arguments]


def _largest(
    profile: CapturedProfile, weights: Collection[Name], calls: list[list[Array]]
) -> Iterator[tuple[Name, float]]:
    """Yield the largest factor in each product with these weights, of every call."""
    module = mlir_context.read_artifact(profile.module.artifact)
    names = {
        place: (each.set, each.tensor)
        for place, each in enumerate(profile.arguments)
        if isinstance(each, WeightArgument) and (each.set, each.tensor) in weights
    }
    found = [names[place] for place in keep_largest_factors(module, names)]
    outputs = [Aval((), np.dtype(np.float32)) for _ in found]
    device: Any = Processor()
    device.register_custom_calls(profile.module.custom_call_targets)
    artifact = portable(module).artifact
    for results in results_of(device, artifact, calls, outputs, {}) if found else ():
        yield from zip(found, map(float, results), strict=True)
