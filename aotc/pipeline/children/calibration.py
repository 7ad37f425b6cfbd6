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
from aotc.check.evaluation_files import Array, Batch
from aotc.compile.mlir import mlir_context
from aotc.compile.precision.activations import keep_largest_factors, unit_of
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.children.evaluation_worker import DataWriter, Resolve, read_blocks
from aotc.pipeline.children.quantized_capture import Name, weight_names
from aotc.pipeline.children.truth_worker import results_of
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.xla.xla_cpu_device import Processor
from aotc_runtime.engines.xla.xla_features import PRODUCTS_ALONE
from aotc_runtime.schema.bundle_manifest import InputArgument

SAMPLES_MAX = 512
"""Samples that are called, in whole batches."""


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
        sizes = [each.sizes for each in captured.profiles]
        calls: list[list[list[Array]]] = [[] for _ in sizes]
        samples = 0
        for batch in data.batches(self.folder, sizes, data.where):
            fitting = (n for n, each in enumerate(sizes) if data.serves(each, batch.sizes))
            number = min(fitting, key=lambda n: [*sizes[n].values()])
            calls[number].append(self._arguments(captured, captured.profiles[number], batch))
            samples += batch.samples
            if samples >= SAMPLES_MAX:
                break
        largest: dict[Name, float] = {}
        for profile, of_profile in zip(captured.profiles, calls, strict=True):
            for weight, most in _largest(profile, weights, of_profile) if of_profile else ():
                # NaN is larger than all others.
                largest[weight] = float(np.maximum(largest.get(weight, 0.0), most))
        if not np.isfinite([*largest.values()]).all():
            found = "factors that are NaN or infinite"
            raise refusal("AOTC-E847", data.where, found, expected="samples that calibrate")
        units = {" ".join(weight): repr(unit_of(most)) for weight, most in largest.items()}
        return Calibration(data=data.digest, samples=samples, units=units)

    def _arguments(
        self, captured: CapturedEntryPoint, profile: CapturedProfile, batch: Batch
    ) -> list[Array]:
        """Return the arguments of a profile's module; smaller inputs are repeated to fill it."""
        spec, real = self.manifest.entry_points[captured.name], {**profile.sizes, **batch.sizes}
        given = batch.inputs | mask_and_length_arrays(spec, real, profile.sizes)
        leaves = [given[leaf.path] for leaf in captured.inputs]
        for number, shape in enumerate(profile.input_shapes):
            for axis, size in enumerate(shape):
                leaves[number] = np.take(leaves[number], range(size), axis, mode="wrap")
        return [
            leaves[each.leaf]
            if isinstance(each, InputArgument)
            else self.tensor((each.set, each.tensor))
            for each in profile.arguments
        ]


def _largest(
    profile: CapturedProfile, weights: Collection[Name], calls: list[list[Array]]
) -> Iterator[tuple[Name, float]]:
    """Yield the largest factor in each product with these weights, of every call."""
    module = mlir_context.read_artifact(profile.module.artifact)
    every = weight_names(profile.arguments).items()
    names = {place: name for place, name in every if name in weights}
    found = [names[place] for place in keep_largest_factors(module, names)]
    outputs = [Aval((), np.dtype(np.float32)) for _ in found]
    device: Any = Processor()
    device.register_custom_calls(profile.module.custom_call_targets)
    artifact = portable(module).artifact
    for results in results_of(device, artifact, calls, outputs, PRODUCTS_ALONE) if found else ():
        yield from zip(found, map(float, results), strict=True)
