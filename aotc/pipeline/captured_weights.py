"""Candidates of a tuned build that hold weights as constants: which weights, and their jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from aotc.base.stages import CapturedProfile, CompileJob
from aotc.compile.compiler_protocol import Candidate
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.formats.safetensors_reader import numpy_dtype, read_tensors
from aotc_runtime.schema.bundle_manifest import DType, WeightArgument, WeightTensor

DTYPES = frozenset(
    {DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.INT16, DType.INT32, DType.INT64}
)
"""Dtypes of weights that can become constants; weights of others stay arguments."""


NARROW = frozenset({DType.BFLOAT16, DType.FLOAT16})
"""Dtypes that XLA widens to float32 for a product, on processors that do not multiply them."""


class WeightFiles:
    """A build's weights, looked up by name."""

    def __init__(self, scratch: Scratch, sets: Iterable[str]) -> None:
        self._files = {
            (name, tensor): (data, info)
            for name in sets
            for path in scratch.weights(name)
            for data in [memoryview(np.memmap(path, np.uint8, mode="r"))]
            for tensor, info in read_tensors(data, where=f"weights {name}").items()
        }

    def places(self, profile: CapturedProfile) -> tuple[int, ...]:
        """The profile's parameters that can become constants."""
        return tuple(
            place
            for place, argument in enumerate(profile.arguments)
            if isinstance(argument, WeightArgument) and self._tensor(argument).dtype in DTYPES
        )

    def size(self, profile: CapturedProfile) -> int:
        """Bytes of the weights that can become constants."""
        tensors = [self._tensor(argument) for argument in self.arguments(profile)]
        return sum(prod(t.shape) * numpy_dtype(t.dtype).itemsize for t in tensors)

    def are_narrow(self, profile: CapturedProfile) -> bool:
        """Whether some of the profile's weights are floating-point numbers of 16 bits."""
        bound = (a for a in profile.arguments if isinstance(a, WeightArgument))
        return any(self._tensor(argument).dtype in NARROW for argument in bound)

    def arguments(self, profile: CapturedProfile) -> tuple[WeightArgument, ...]:
        """The weights themselves, in the order of the parameters."""
        every = [profile.arguments[place] for place in self.places(profile)]
        return tuple(argument for argument in every if isinstance(argument, WeightArgument))

    def values(self, profile: CapturedProfile) -> dict[int, np.ndarray[Any, Any]]:
        """Arrays by place among the parameters."""
        arrays = {}
        for place, argument in zip(self.places(profile), self.arguments(profile), strict=True):
            data, info = self._files[argument.set, argument.tensor]
            flat = np.frombuffer(data[info.start : info.end], numpy_dtype(info.dtype))
            arrays[place] = flat.reshape(info.shape)
        return arrays

    def _tensor(self, argument: WeightArgument) -> WeightTensor:
        _, info = self._files[argument.set, argument.tensor]
        return WeightTensor(name=argument.tensor, dtype=info.dtype, shape=info.shape)


def candidate_job(
    job: CompileJob, candidate: Candidate, profile: CapturedProfile, weights: WeightFiles
) -> CompileJob:
    """The job of a profile with a candidate's options, and its weights as constants if it
    has any.
    """
    constants = weights.values(profile) if candidate.captures else {}
    return replace(job, options=candidate.options, constants=constants)
