"""Trials and their outcomes, as values that processes of a build exchange."""

from __future__ import annotations

from msgspec import Struct

type Sizes = dict[str, int]

DECLARED = "declared"

ABOUT_FLOATS = ("nan", "inf")
LARGEST, SMALLEST = "largest", "smallest"
ABOUT_NUMBERS = (LARGEST, SMALLEST, "ones")
"""What padding is filled with beside what the manifest declares: whatever leaks shows."""


FIXTURE, LOW, HIGH = "fixture", "low", "high"
MIXED, REVERSED = "mixed", "reversed"
"""Which inputs a trial has: the fixture's, or others (`aotc.check.padding.trial_samples`)."""


class PlannedTrial(Struct, frozen=True):
    """A call to be compared with one of exactly its sizes.

    dimensions: whose policies it is about.  sizes: of the call.  profiles: the one it is padded to,
    or those it is split into, in order.  fill: a name of this module; empty for a split,
    whose parts hold what is declared where another dimension is padded.  inputs: a name of this
    module.  filled: paths of the padded inputs to the number that fills them, for messages.
    beside: where the call's rows are tried beside those of others in a call of the profile, the
    smallest sizes that those have in the dimensions in which they may differ.
    """

    dimensions: tuple[str, ...]
    sizes: Sizes
    profiles: tuple[Sizes, ...]
    fill: str
    inputs: str = FIXTURE
    filled: dict[str, str] = {}
    beside: Sizes = {}


class EntryTrials(Struct, frozen=True):
    """The trials of one entry point.

    fills: leaf of an input to the number its padding is declared to hold.  held: leaves that hold
    it, or false where none is declared, in every trial.  masks, lengths: leaves that the loader
    passes, with their dimensions.
    ranges: leaves of integers to the smallest and largest of the numbers that they are known to
    hold, which padding keeps to.  marks: paths of inputs that may be the caller's own mask and
    whose fill is not declared, to the fill that a message names.
    """

    entry_point: str
    rtol: float
    atol: float
    fills: dict[int, str]
    held: tuple[int, ...]
    masks: dict[int, tuple[str, ...]]
    lengths: dict[int, str]
    trials: tuple[PlannedTrial, ...]
    ranges: dict[int, tuple[int, int]] = {}
    marks: dict[str, str] = {}
