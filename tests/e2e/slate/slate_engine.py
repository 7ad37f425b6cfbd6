"""The runtime's side: an engine for processors that computes one function with numpy. What the
environment says makes it slow to start, large, or wrong, for tests of what is measured.
"""

import os
import time
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from aotc_runtime.base.errors import BackendError, Finding
from aotc_runtime.engines.engine_arrays import Array, Aval, Stored
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.host_facts import Accelerator

DISTRIBUTION, PLATFORM = "slate", "slate"
COMPUTES = b"image @ kernel + bias"

START_SECONDS, MEGABYTES, WRONG = "SLATE_START_SECONDS", "SLATE_MEGABYTES", "SLATE_WRONG"

platforms = (PLATFORM,)


class Slate(Device):
    """One device."""

    platform, engine = PLATFORM, "slate"

    def __init__(self) -> None:
        time.sleep(float(os.environ.get(START_SECONDS, "0")))
        self.weight = np.ones(int(os.environ.get(MEGABYTES, "0")) * 2**20, np.uint8)

    def deserialize(
        self, every: Sequence[Stored], numbers: Sequence[int], custom_calls: Sequence[str]
    ) -> list[str]:
        return [_checked(stored) for stored in every]

    def put(self, array: Array, aval: Aval) -> Array:
        return array.copy()

    def share(self, array: Array, aval: Aval) -> Array:
        return array

    def execute(self, executable: str, arguments: list[Any]) -> list[Array]:
        bias, kernel, image = arguments
        return [image @ kernel + bias + (WRONG in os.environ)]

    def to_numpy(self, buffer: Array, aval: Aval) -> Array:
        return buffer.astype(aval.dtype)


def machine(threads: int | None, devices: int | None) -> None:
    """Return the system's own description of the processor."""


def facts(platform: str) -> Accelerator | None:
    """This host's processor."""
    return Accelerator(platform, devices=1, kinds=(PLATFORM,), plugin=version(DISTRIBUTION))


def start(platform: str, threads: int | None, devices: int | None) -> Device:
    """The slate of this process."""
    return _slate()


@cache
def _slate() -> Slate:
    return Slate()


def _checked(stored: Stored) -> str:
    if bytes(stored.blob.data) == COMPUTES:
        return stored.where
    found = repr(bytes(stored.blob.data[:20]))
    raise BackendError(
        Finding("AOTC-E753", stored.where, "what is written on a slate", found, "build it again")
    )
