"""Trials: calls of executables that are compared with plain JAX, and the files they lie in.

A trial is a call (an entry point, sizes and a kind of inputs), and how executables take it: as it
is, padded, split, or beside the rows of other calls.

    plan (capture) -> plain JAX (reference) -> executables (parity worker) -> verdict

The capture leaves the plan; plain JAX leaves the inputs and results of each call, laid out as a
fixture, and its outcomes beside the plan; an executable leaves results that differ.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from aotc.base.msgpack_values import ValueFile
from aotc.base.stages import file_stem, fixture_file
from aotc.check.plain_structures import Leaf
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.serving.readiness import Difference
from aotc_runtime.system.bundle_files import map_file

type Array = np.ndarray[Any, Any]
type Sizes = dict[str, int]

FIXTURE = "fixture"
"""The kind of inputs that a fixture has; `aotc.check.trial_inputs` makes the others."""


class Call(Struct, frozen=True):
    """A call of exactly some sizes; prints as "predict[batch=8] with the inputs nan"."""

    key: ExecutableKey
    inputs: str = FIXTURE

    @property
    def sizes(self) -> Sizes:
        """The size of each dimension."""
        return dict(self.key.sizes)

    def __str__(self) -> str:
        return f"{self.key.label} with the inputs {self.inputs}"


class Trial(Struct, frozen=True):
    """A call to be compared with plain JAX's of exactly its sizes.

    Attributes:
        call: The call.
        dimensions: The dimensions whose policies it tests; none for a value trial, which an
            executable of its sizes takes as it is.
        profiles: The profile it is padded to, or those it is split into, in order.
        fill: A name of `aotc.check.trial_run`; empty for a split, whose parts hold the declared
            numbers where another dimension is padded.
        filled: Paths of the padded inputs to the number that fills them, for messages.
        beside: For a call whose rows are tried beside those of others in a call of the profile, the
            smallest sizes of these in the dimensions in which they may differ.
    """

    call: Call
    dimensions: tuple[str, ...] = ()
    profiles: tuple[Sizes, ...] = ()
    fill: str = ""
    filled: dict[str, str] = {}
    beside: Sizes = {}

    @property
    def is_fixture(self) -> bool:
        """Return whether it is the fixture's call, as an executable takes it."""
        return self.call.inputs == FIXTURE and not self.dimensions


class EntryTrials(Struct, frozen=True):
    """The trials of one entry point.

    Attributes:
        entry_point: The name of the entry point.
        rtol: The relative tolerance of padded and split calls; 0 without any.
        atol: Likewise the absolute one.
        fills: The number that an input's padding is declared to hold, by path.
        held: Inputs whose padding holds this number, or false if none is declared, in every trial.
        masks: Masks that the loader passes, with their dimensions.
        lengths: Lengths that the loader passes, with their dimension.
        trials: The planned trials.
        ranges: The smallest and largest numbers that inputs of integers are known to hold, to which
            padding keeps.
        marks: Inputs that may be the caller's own mask and whose fill is not declared, to the fill
            that a message names: the value that they do not hold, or are not held at.
        rounds: Whether a precision of the entry point rounds activations to 8 bits.
    """

    entry_point: str
    rtol: float
    atol: float
    fills: dict[str, str] = {}
    held: tuple[str, ...] = ()
    masks: dict[str, tuple[str, ...]] = {}
    lengths: dict[str, str] = {}
    trials: tuple[Trial, ...] = ()
    ranges: dict[str, tuple[int, int]] = {}
    marks: dict[str, str] = {}
    rounds: bool = False


class Outcome(Struct, frozen=True):
    """A trial that ran, with the difference from plain JAX.

    `truth` is whether an executable exceeds the tolerance, but is as close to float64.
    """

    trial: Trial
    difference: Difference
    truth: bool = False


class PlainOutcome(Struct, frozen=True):
    """The outcome of a trial in plain JAX.

    `skipped` is why a value trial is left out. `allowance` is the step allowance of one that runs,
    and `difference` that of plain JAX itself, padded or split.
    """

    skipped: str = ""
    allowance: float = 0.0
    difference: Difference | None = None


class TriedEntry(Struct, frozen=True):
    """The trials of an entry point, with what plain JAX does in each."""

    entry: EntryTrials
    plain: tuple[PlainOutcome, ...]

    def pairs(self) -> Iterator[tuple[Trial, PlainOutcome]]:
        """Yield each trial with its outcome in plain JAX."""
        return zip(self.entry.trials, self.plain, strict=True)

    def in_jax(self) -> list[Outcome]:
        """Return the outcomes of padded and split calls in plain JAX."""
        return [Outcome(t, each.difference) for t, each in self.pairs() if each.difference]


class CallArrays(Struct, frozen=True):
    """The inputs and plain JAX's results of a call, in leaf order."""

    inputs: list[Array]
    expected: list[Array]


Plans = dict[str, list[EntryTrials]]
"""The trials of each entry point, by target."""

Tried = dict[str, list[TriedEntry]]
"""The same with plain JAX's outcomes."""


def plan_file(folder: Path) -> ValueFile[Plans]:
    """Return the file with the plan of trials."""
    return ValueFile(folder / "trials.msgpack", Plans)


def tried_file(folder: Path) -> ValueFile[Tried]:
    """Return the file with the plan and plain JAX's outcomes."""
    return ValueFile(folder / "tried.msgpack", Tried)


def count_trials(folder: Path) -> int:
    """Return how many different trials are planned: targets have most of them in common."""
    entries = [entry for each in plan_file(folder).read({}).values() for entry in each]
    return len({msgspec.msgpack.encode(trial) for entry in entries for trial in entry.trials})


def call_file(folder: Path, call: Call) -> Path:
    """Return the file of a call's inputs and plain JAX's results; that of a fixture is one."""
    if call.inputs == FIXTURE:
        return fixture_file(folder, call.key)
    return folder / f"call.{file_stem(call.key)}.{call.inputs}.safetensors"


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file by name, read-only over the mapped file."""
    return _arrays(map_file(path), path.name)


def _arrays(data: memoryview, where: str) -> dict[str, Array]:
    return {name: array for name, (array, _) in tensor_views(data, where).items()}


def read_call(
    path: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> CallArrays:
    """Return the call in a file that is laid out as a fixture."""
    return call_arrays(memoryview(path.read_bytes()), inputs, outputs)


def call_arrays(
    data: memoryview, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> CallArrays:
    """Return the call in the bytes of a fixture."""
    found = _arrays(data, "fixture")
    return CallArrays(
        inputs=[found[f"inputs/{spec.path}"] for spec in inputs],
        expected=[found[f"outputs/{spec.path}"] for spec in outputs],
    )


def found_file(folder: Path, target: str, call: Call) -> ValueFile[list[Leaf]]:
    """Return the file with an executable's results of a call, if they differ."""
    name = f"found.{target}.{file_stem(call.key)}.{call.inputs}.msgpack"
    return ValueFile(folder / name, list[Leaf])
