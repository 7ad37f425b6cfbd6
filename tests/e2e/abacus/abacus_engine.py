"""The runtime's side: engines that compute one function with numpy, of "executables" that are a
line of text. They need nothing of aotc but the protocol.
"""

import os
import time
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from aotc_runtime.base.errors import BackendError, Finding
from aotc_runtime.engines.engine_arrays import Array, Aval, Stored
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.host_facts import Accelerator

DISTRIBUTION, KIND = "abacus", "beads"
COMPUTES = "image @ kernel + bias"

START_SECONDS, MEGABYTES, WRONG = "SLATE_START_SECONDS", "SLATE_MEGABYTES", "SLATE_WRONG"

platforms = ("abacus", "slate")


class Beads(NamedTuple):
    """A buffer. is_shared: whether it is the weights' own memory."""

    array: Array
    is_shared: bool


class OverflowingError(Exception):
    """The abacus has too few rods."""


class Abacus(Device):
    """One device."""

    platform, engine = "abacus", "abacus"
    error = OverflowingError

    def deserialize(
        self, every: Sequence[Stored], numbers: Sequence[int], custom_calls: Sequence[str]
    ) -> list[int]:
        return [_rods(stored) for stored in every]

    def put(self, array: Array, aval: Aval) -> Beads:
        return Beads(array.copy(), is_shared=False)

    def share(self, array: Array, aval: Aval) -> Beads:
        return Beads(array, is_shared=True)

    def execute(self, executable: int, arguments: list[Any]) -> list[Beads]:
        bias, kernel, image = arguments
        assert (bias.is_shared, kernel.is_shared, image.is_shared) == (True, True, False)
        if abs(image.array[0, 0]) >= 10**executable:
            raise OverflowingError(f"a first number of more than {executable} digits")
        return [Beads(image.array @ kernel.array + bias.array, is_shared=False)]

    def to_numpy(self, buffer: Beads, aval: Aval) -> Array:
        return buffer.array.copy()


class Slate(Abacus):
    """The same for processors. The environment makes it slow to start, large, or wrong."""

    platform, engine = "slate", "slate"

    def __init__(self) -> None:
        time.sleep(float(os.environ.get(START_SECONDS, "0")))
        self.weight = np.ones(int(os.environ.get(MEGABYTES, "0")) * 2**20, np.uint8)

    def execute(self, executable: int, arguments: list[Any]) -> list[Beads]:
        (sums,) = super().execute(executable, arguments)
        return [sums._replace(array=sums.array + (WRONG in os.environ))]


def machine(threads: int | None, devices: int | None) -> None:
    """Return the system's own description of the processor."""


def facts(platform: str) -> Accelerator | None:
    """This host's device of a platform."""
    return Accelerator(platform, devices=1, kinds=(KIND,), plugin=version(DISTRIBUTION))


def start(platform: str, threads: int | None, devices: int | None) -> Device:
    """The device of this process."""
    return _started(platform)


@cache
def _started(platform: str) -> Abacus:
    return Abacus() if platform == "abacus" else Slate()


def _rods(stored: Stored) -> int:
    rods, _, computes = bytes(stored.blob.data).decode().partition(" rods compute ")
    if computes == COMPUTES:
        return int(rods)
    raise BackendError(
        Finding("AOTC-E753", stored.where, "what an abacus computes", computes, "build it again")
    )
