"""Value trials: what a build plans, runs and finds, as values and files that its processes share.

The reference process plans the trials of each executable and leaves the inputs with plain JAX's
results; the parity process runs the executables on them; what differs is judged apart.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from aotc.base.msgpack_values import ValueFile, unpacked
from aotc.base.stages import file_stem
from aotc.check.plain_structures import Array, Leaf, array_of, leaf_of
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.serving.readiness import Difference

FIXTURE = "fixture"
"""Stands among the kinds of trials for the fixture itself."""

IDENTICAL, WITHIN = "identical", "within"
"""Results of two calls with the same inputs: the same bytes, or within the tolerance on a device
whose threads add up in another order each time."""


class PlannedValues(Struct, frozen=True):
    """The trials of one executable: `trial_inputs` kinds that run, and others with reasons.

    `allowances` has the step allowances by kind, also that of the fixture.
    """

    kinds: tuple[str, ...] = ()
    skipped: dict[str, str] = {}
    allowances: dict[str, float] = {}


Plans = dict[str, PlannedValues]
"""By label: "predict[batch=8]"."""


class ValueRan(Struct, frozen=True):
    """One trial, with its difference from plain JAX.

    `truth` is whether the executable exceeds the tolerance, but is as close to float64.
    """

    kind: str
    difference: Difference
    truth: bool = False


class ValuesRan(Struct, frozen=True):
    """The trials of one executable.

    `state` compares two calls with the fixture, `IDENTICAL` or `WITHIN`; `changed` is the path of
    an output that differs between them.
    """

    key: ExecutableKey
    trials: tuple[ValueRan, ...]
    state: str
    changed: str | None = None


def plan_file(folder: Path) -> ValueFile[Plans]:
    """Return the file with the plan of the value trials."""
    return ValueFile(folder / "values.msgpack", Plans)


def value_file(folder: Path, key: ExecutableKey, kind: str) -> Path:
    """Return the inputs of a trial and what plain JAX makes of them; laid out as a fixture."""
    return folder / f"value.{file_stem(key)}.{kind}.safetensors"


def found_file(folder: Path, target: str, key: ExecutableKey, kind: str) -> Path:
    """Return what an executable made of a trial's inputs, or of the fixture's, if it differs."""
    return folder / f"found.{target}.{file_stem(key)}.{kind}.msgpack"


def write_found(path: Path, arrays: Sequence[Array]) -> None:
    """Leave the results of a trial, in leaf order."""
    path.write_bytes(msgspec.msgpack.encode([leaf_of(np.asarray(array)) for array in arrays]))


def read_found(path: Path) -> list[Array]:
    """Return what `write_found` left."""
    return [array_of(leaf) for leaf in unpacked(path.read_bytes(), list[Leaf])]
