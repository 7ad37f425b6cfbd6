"""Learning what an entry point costs at any size: from a few probes, in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from aotc.base import constants
from aotc.commands.profiles.call_cost import CostModel, elements, fit, probe_sizes
from aotc.commands.profiles.probe_messages import Answer, Job
from aotc.commands.profiles.size_space import Points, Space
from aotc.config.build_manifest import BuildManifest, encode_build_manifest
from aotc.pipeline.user_processes import ask, limits_of


class CostKind(StrEnum):
    """Where the cost of a call comes from."""

    ANALYSIS = "analysis"
    ELEMENTS = "elements"


@dataclass(frozen=True, slots=True)
class Probed:
    """The result of probing.

    `probes` is how many were traced; `open_loops` counts loops of unknown length, for which the
    model counts one step.
    """

    model: CostModel
    probes: int
    open_loops: int


def probe(manifest: BuildManifest, space: Space, points: Points, kind: CostKind) -> Probed:
    """A cost model for the sizes of these points. Raises CaptureError."""
    if kind is CostKind.ELEMENTS:
        return Probed(elements(len(space.axes)), probes=0, open_loops=0)
    levels = {name: np.unique(points[:, i]).tolist() for i, name in enumerate(space.names)}
    sizes = probe_sizes(levels)
    answer = ask(
        "aotc.commands.profiles.cost_probe_worker",
        Job(encode_build_manifest(manifest), space.entry_point, sizes),
        Answer,
        variables={constants.CONSTANTS_AS_ARGUMENTS: "1"},
        doing="the probing process",
        limits=partial(limits_of, manifest),
    )
    work = np.array([each.work for each in answer.costs])
    model = fit(space.points(sizes), np.maximum(work, 1.0), "operations")
    return Probed(model, len(sizes), max(each.open_loops for each in answer.costs))
