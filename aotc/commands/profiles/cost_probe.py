"""Learning what an entry point costs at any size: from a few probes, in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from aotc.base import constants
from aotc.base.stages import CompileJob
from aotc.commands.profiles.call_cost import (
    CostModel,
    Elements,
    fit,
    probe_sizes,
)
from aotc.commands.profiles.probe_messages import Answer, Job
from aotc.commands.profiles.size_space import Points, Space
from aotc.compile.compiler_registry import backend_for
from aotc.config import manifest_values
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.children.user_process import ask
from aotc.pipeline.tasks.task_pool import stopping_pool
from aotc_runtime.schema.bundle_manifest import Target
from aotc_runtime.schema.manifest_labels import label

BYTES_PER_FLOP = 1.0
"""How much one byte of memory traffic costs in the model, in operations."""


class CostKind(StrEnum):
    """Where the cost of a call comes from."""

    ANALYSIS = "analysis"
    ELEMENTS = "elements"


@dataclass(frozen=True, slots=True)
class Artifact:
    """What one more profile costs at most.

    bytes: of its executable and module.  seconds: to compile it.  memory_bytes: that a call takes
    beside weights and inputs.
    """

    bytes: int
    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Probed:
    """What probing found. artifact: the most expensive of the compiled probes; None if none was
    compiled.  probes: how many were traced.  open_loops: loops of which the model counts one step,
    since how many there are is not known.
    """

    model: CostModel
    artifact: Artifact | None
    probes: int
    open_loops: int


def probe(
    manifest: BuildManifest, space: Space, points: Points, target: Target, kind: CostKind
) -> Probed:
    """A cost model for the sizes of these points. Raises CaptureError, CompileError."""
    if kind is CostKind.ELEMENTS:
        return Probed(Elements(), None, probes=0, open_loops=0)
    levels = {name: np.unique(points[:, i]).tolist() for i, name in enumerate(space.names)}
    sizes = probe_sizes(levels)
    kept = sorted({0, len(sizes) - 1})
    answer = ask(
        "aotc.commands.profiles.cost_probe_worker",
        Job(
            manifest_values.encode(manifest),
            space.entry_point,
            sizes,
            kept,
        ),
        Answer,
        variables={constants.CONSTANTS_AS_ARGUMENTS: "1"},
        doing="the probing process",
    )
    where = space.points([each.sizes for each in answer.probes])
    work = [
        each.flops + each.transcendentals + BYTES_PER_FLOP * each.bytes_accessed
        for each in answer.probes
    ]
    model = fit(where, np.maximum(np.array(work), 1.0), "operations")
    open_loops = max(each.open_loops for each in answer.probes)
    return Probed(model, _compile(space, sizes, answer, target), len(sizes), open_loops)


def _compile(
    space: Space, sizes: Sequence[dict[str, int]], answer: Answer, target: Target
) -> Artifact:
    backend = backend_for(target.platform)

    def one(index: int) -> Artifact:
        module = answer.modules[index]
        made = backend.compile(CompileJob(label(space.entry_point, sizes[index]), module, target))
        memory = made.memory
        used = memory.output_bytes + memory.temp_bytes - memory.alias_bytes
        size = len(made.serialized) + len(module.artifact)
        return Artifact(size, made.compile_seconds, used)

    with stopping_pool(2, backend) as pool:
        made = list(pool.map(one, sorted(answer.modules)))
    return Artifact(
        max(each.bytes for each in made),
        max(each.seconds for each in made),
        max(each.memory_bytes for each in made),
    )
