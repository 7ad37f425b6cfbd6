"""`python peak_memory.py BUNDLE POLICY`: what calls take, beside what XLA says of it, as JSON.

First the address space is filled up to its high-water mark and the heap's free memory is taken;
after that, whatever a call allocates raises the mark by exactly as many pages. Needs glibc 2.33 or
newer with the environment MALLOC when the process starts, and no other thread that allocates.
"""

import ctypes
import json
import mmap
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import aotc_runtime
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import InputArgument
from aotc_runtime.schema.manifest_labels import arguments_of, label

MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_ARENA_MAX": "1", "MALLOC_TOP_PAD_": "0"}
"""The environment of a process that measures: pages go to the system and come back at once."""

LARGEST, SMALLEST = 2**26, 2048

CALLS = 3


class Unmeasurable(Exception):
    """Measuring does not work: the address space cannot be filled up to its high-water mark."""


class _Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
            *("fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = _Mallinfo
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def address_space() -> tuple[int, int]:
    """The highest and the present size of this process' address space, bytes."""
    text = Path("/proc/self/status").read_text("utf-8")
    highest, present = (re.search(rf"{key}:\s+(\d+)", text) for key in ("VmPeak", "VmSize"))
    assert highest and present, "Linux has both"
    return int(highest[1]) * 1024, int(present[1]) * 1024


def take_free_heap() -> list[int]:
    """Allocate whatever the heap can give without growing."""

    def grown() -> tuple[int, int]:
        info = _libc.mallinfo2()
        return info.hblks, info.arena

    held: list[int] = []
    size = LARGEST
    while size >= SMALLEST:
        before = grown()
        block = _libc.malloc(size)
        if grown() == before:
            held.append(block)
        else:
            _libc.free(block)
            size = size * 3 // 4
    return held


def peak(call: Callable[[], Any]) -> int:
    """Bytes that a call allocates at most at a time, after calls that warm it up: the most of
    several, since threads that work on one call do not meet in the same way each time.

    Raises Unmeasurable where something else moves the mark.
    """
    for _ in range(CALLS):
        call()
    held = take_free_heap()
    highest, present = address_space()
    filling = mmap.mmap(-1, highest - present) if highest > present else None
    before, present = address_space()
    if before != present:
        raise Unmeasurable
    for _ in range(CALLS):
        call()
    after, _ = address_space()
    if filling is not None:
        filling.close()
    for block in held:
        _libc.free(block)
    return after - before


def main() -> None:
    path, policy = Path(sys.argv[1]), Path(sys.argv[2])
    bundle = aotc_runtime.load(path, trust=policy, threads=1)
    found = {}
    for name, spec in bundle.manifest.entry_points.items():
        for profile in spec.profiles:
            leaves = [
                np.ones(shape, numpy_dtype(tensor.dtype))
                for tensor, shape in zip(spec.inputs, profile.input_shapes, strict=True)
            ]
            positional, named = arguments_of(bundle[name].parameters, leaves)
            memory = profile.memory
            taken = [
                a.leaf for a in profile.arguments if isinstance(a, InputArgument) and a.aliased
            ]
            found[label(name, profile.sizes)] = {
                "analysis": memory.temp_bytes + memory.output_bytes - memory.alias_bytes,
                "donated": sum(leaves[index].nbytes for index in taken),
                "inputs": sum(leaf.nbytes for i, leaf in enumerate(leaves) if i not in taken),
                "observed": peak(lambda f=bundle[name], p=positional, n=named: f(*p, **n)),
                "libraries": sorted(profile.thunks.keys() - {"kernel"}),
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
