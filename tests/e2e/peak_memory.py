"""`python peak_memory.py BUNDLE POLICY`: what calls allocate, beside what XLA says of it, as JSON.

The address space of this process is filled up to its highest mark, and the heap's free memory is
taken, so that whatever a call allocates raises the mark by exactly as much, in pages. Needs glibc
with MALLOC_MMAP_THRESHOLD_=4096, MALLOC_ARENA_MAX=1 and MALLOC_TOP_PAD_=0 in the environment.
"""

from __future__ import annotations

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
from aotc_runtime.schema.labels import label
from aotc_runtime.schema.manifest import InputArgument
from aotc_runtime.serving.dtypes import numpy_dtype
from aotc_runtime.serving.signature import arguments_of
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.contents import read_unverified

LARGEST, SMALLEST = 2**26, 2048


class Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
            *("fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def address_space() -> tuple[int, int]:
    """The highest and the present size of this process' address space, bytes."""
    text = Path("/proc/self/status").read_text()
    highest, present = (re.search(rf"{key}:\s+(\d+)", text) for key in ("VmPeak", "VmSize"))
    assert highest and present
    return int(highest[1]) * 1024, int(present[1]) * 1024


def take_free_heap() -> list[int]:
    """Allocate whatever the heap can give without growing."""

    def grown() -> tuple[int, int]:
        info = libc.mallinfo2()
        return info.hblks, info.arena

    held: list[int] = []
    size = LARGEST
    while size >= SMALLEST:
        before = grown()
        block = libc.malloc(size)
        if grown() == before:
            held.append(block)
        else:
            libc.free(block)
            size = size * 3 // 4
    return held


def peak(call: Callable[[], Any]) -> int:
    """Bytes that a call allocates at most at a time, after calls that warm it up."""
    for _ in range(3):
        call()
    held = take_free_heap()
    highest, present = address_space()
    filling = mmap.mmap(-1, highest - present) if highest > present else None
    before, present = address_space()
    assert before == present, "the mark is where the address space ends"
    result = call()
    after, _ = address_space()
    del result
    if filling is not None:
        filling.close()
    for block in held:
        libc.free(block)
    return after - before


def main() -> None:
    path, policy = Path(sys.argv[1]), Path(sys.argv[2])
    contents, _ = read_unverified(open_bundle(path))
    bundle = aotc_runtime.load(path, trust=policy, threads=1)
    (manifest,) = contents.manifests.values()
    found = {}
    for name, spec in manifest.entry_points.items():
        for profile in spec.profiles:
            leaves = [
                np.zeros(shape, numpy_dtype(tensor.dtype))
                for tensor, shape in zip(spec.inputs, profile.input_shapes, strict=True)
            ]
            positional, named = arguments_of(spec.parameters, leaves)
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
