"""Tests of the memory of a loaded bundle: weights in place, and nothing after it is closed."""

import gc
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest

import aotc_runtime
from aotc.bundle.write.safetensors_writer import shards
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, BundleFormatError
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.engines.xla import xla_client
from aotc_runtime.engines.xla.xla_engine import processor
from aotc_runtime.formats import tar_archive
from aotc_runtime.formats.safetensors_reader import ALIGNMENT, read_tensors
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.serving import resident_bundle
from aotc_runtime.serving.resident_bundle import make_resident, weight_arrays
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.host_compatibility import Choice
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.verify_bundle import VerifiedBlob, VerifiedBundle
from tests.conftest import Built, Bundle

from ..samples import manifest, refused

Array = np.ndarray[Any, Any]
CHOICE = Choice(manifest().target.name, False, (), ())


def sharded(
    tensors: dict[str, Array], limit: int
) -> tuple[VerifiedBundle, bundle_manifest.WeightSet]:
    """A weights set in several blobs."""
    files = list(map(b"".join, shards(tensors, where="test", limit=limit)))
    blobs = {sha256(data): VerifiedBlob(sha256(data), memoryview(data)) for data in files}
    listed = [item for data in files for item in read_tensors(memoryview(data), where="x").items()]
    weights = bundle_manifest.WeightSet(
        blobs=tuple(bundle_manifest.BlobRef(digest=sha256(data), size=len(data)) for data in files),
        origin="init",
        tensors=tuple(
            bundle_manifest.WeightTensor(name=name, dtype=info.dtype, shape=info.shape)
            for name, info in listed
        ),
    )
    return VerifiedBundle("sha256:", (), manifest(), blobs, CHOICE), weights


TENSORS = {name: np.full((4, 8), index, np.float32) for index, name in enumerate("abcdef")}


@pytest.mark.parametrize("limit", [1, 256, 10_000])
def test_a_set_is_read_from_all_of_its_blobs(limit: int) -> None:
    bundle, weights = sharded(TENSORS, limit)
    arrays = weight_arrays(bundle, "params", weights)
    assert arrays.keys() == TENSORS.keys()
    assert all(np.array_equal(arrays[name], TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize("change", ["missing", "more", "name", "dtype", "shape", "order", "blobs"])
def test_blobs_that_do_not_hold_what_the_manifest_lists_are_refused(change: str) -> None:
    bundle, weights = sharded(TENSORS, 256)
    listed = list(weights.tensors)
    blobs = weights.blobs
    match change:
        case "missing":
            listed.append(listed[0])
        case "more":
            listed.pop()
        case "order":
            listed.reverse()
        case "blobs":
            blobs = blobs[::-1]
        case _:
            other = {"name": "z", "dtype": bundle_manifest.DType.INT32, "shape": (8, 4)}[change]
            listed[3] = msgspec.structs.replace(listed[3], **{change: other})
    bad = msgspec.structs.replace(weights, tensors=tuple(listed), blobs=blobs)
    with refused("AOTC-E117"):
        weight_arrays(bundle, "params", bad)


@pytest.mark.parametrize("name", ["digits", "vision"])
def test_xla_uses_aligned_tensors_in_place(name: str, built: Built) -> None:
    path, policy = built(name)
    source, facts = open_bundle(path), detect()
    bundle = make_resident(verify(source, read_policy(policy), facts, time.time()))
    mapped = ranges(path)
    in_place = 0
    buffers = {
        (argument.set, argument.tensor): bound
        for entry_point in bundle.entry_points.values()
        for profile in entry_point.profiles
        for argument, bound in zip(profile.record.arguments, profile.arguments, strict=True)
        if isinstance(argument, bundle_manifest.WeightArgument)
    }
    for key, array in bundle.arrays.items():
        address = array.ctypes.data
        assert any(start <= address and address + array.nbytes <= end for start, end in mapped)
        if array.nbytes % ALIGNMENT == 0:
            assert address % ALIGNMENT == 0, "the writer puts these on a boundary"
            assert buffers[key].unsafe_buffer_pointer() == address
            in_place += array.nbytes
    assert in_place > 0.99 * sum(array.nbytes for array in bundle.arrays.values())


def ranges(path: Path) -> list[tuple[int, int]]:
    """Return where a file is mapped into this process."""
    found = []
    for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
        if line.endswith(str(path.resolve())):
            start, end = line.split()[0].split("-")
            found.append((int(start, 16), int(end, 16)))
    return found


def held() -> tuple[int, int, int]:
    """Open files, maps, and executables in XLA's client."""
    gc.collect()
    # What was dropped without closing, XLA lets go of at its next call; this is one.
    processor().forget_released()
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    maps = len(Path("/proc/self/maps").read_text("utf-8").splitlines())
    return files, maps, executables()


def executables() -> int:
    """XLA still lists one that it is just taking apart, so a count is believed once it stays."""
    counts = [-1, -2]
    while len(set(counts[-3:])) > 1:
        counts.append(len(processor()._client.live_executables()))
        time.sleep(0.005)
    return counts[-1]


def private_bytes() -> int:
    """Memory of this process alone."""
    line = next(
        x for x in Path("/proc/self/status").read_text("utf-8").splitlines() if "RssAnon" in x
    )
    return int(line.split()[1]) * 1024


def test_a_closed_bundle_holds_nothing_even_while_somebody_holds_it(digits_bundle: Bundle) -> None:
    path, policy = digits_bundle
    aotc_runtime.load(path, trust=policy).close()
    before = held()
    bundle = aotc_runtime.load(path, trust=policy)
    predict = bundle["predict"]
    predict(np.zeros((1, 64), np.float32))
    assert ranges(path) and held()[2] > before[2]
    bundle.close()
    assert not ranges(path) and held()[2] == before[2], repr(predict)


def test_a_bundle_that_is_dropped_without_closing_holds_nothing(digits_bundle: Bundle) -> None:
    path, policy = digits_bundle
    before = held()[2]
    aotc_runtime.load(path, trust=policy)
    assert held()[2] == before and not ranges(path)


def test_failed_load_holds_nothing(digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    path, policy = digits_bundle
    before = held()[2]
    original = resident_bundle._profile

    def fail_at_the_last(*arguments: Any) -> Any:
        profile = original(*arguments)
        if profile.label.endswith("[batch=64]"):
            raise BundleFormatError(*refused.findings)
        return profile

    refused = AotcError(aotc_runtime.Finding("AOTC-E117", "a test", "", "", ""))
    monkeypatch.setattr(resident_bundle, "_profile", fail_at_the_last)
    with pytest.raises(BundleFormatError) as caught:
        aotc_runtime.load(path, trust=policy)
    assert caught.value.code == "AOTC-E117"
    del caught
    assert held()[2] == before and not ranges(path)


def test_refused_load_keeps_no_executables(digits_bundle: Bundle, tmp_path: Path) -> None:
    """The weights are the last to be verified, and executables are deserialized before."""
    bad = bytearray(digits_bundle[0].read_bytes())
    last = list(tar_archive.read_members(memoryview(bytes(bad)), where="x").values())[-1]
    bad[last.offset + last.size - 1] ^= 1
    path = tmp_path / "bad.aotb"
    path.write_bytes(bad)

    def refuse() -> None:
        with refused("AOTC-E201"):
            aotc_runtime.load(path, trust=digits_bundle[1])

    def kept() -> int:
        """Bytes that the module which deserializes has made, and that are still there."""
        gc.collect()  # what was raised refers to where it was raised
        made_there = tracemalloc.Filter(inclusive=True, filename_pattern=xla_client.__file__)
        traces = tracemalloc.take_snapshot().filter_traces([made_there])
        return sum(each.size for each in traces.statistics("filename"))

    tracemalloc.start()
    try:
        refuse()
        before = kept()
        for _ in range(10):
            refuse()
        assert kept() - before < 2**16, "the executables of one load have more"
    finally:
        tracemalloc.stop()


def test_repeated_loads_need_no_more_memory_files_or_maps(digits_bundle: Bundle) -> None:
    """benchmarks/cycles.py loads 200 times; what one load holds is 400 kB and several maps."""
    path, policy = digits_bundle
    image = np.zeros((8, 64), np.float32)

    def growth(cycles: int) -> int:
        before = private_bytes()
        for _ in range(cycles):
            with aotc_runtime.load(path, trust=policy) as bundle:
                bundle["predict"](image)
        return private_bytes() - before

    growth(5)
    files, maps, executables = held()
    # Arenas of threads that deserialize fill once, in whichever round; a leak grows in all.
    assert any(growth(20) < 20 * 200_000 for _ in range(3))
    assert held()[0] == files and held()[2] == executables
    assert held()[1] < maps + 20, "arenas of the allocator may come, a map for each load may not"


def test_only_what_jaxlibs_own_call_path_takes_in_order_runs_there() -> None:
    device = processor()
    plain = Aval((2,), np.dtype(np.float32))
    weight = device.put(np.ones(2, np.float32), plain)
    spec = manifest().entry_points["predict"]
    (parameter,) = spec.parameters
    donating = msgspec.structs.replace(
        spec, parameters=(msgspec.structs.replace(parameter, donated=True),)
    )
    packed = Aval((2,), np.dtype(ml_dtypes.int4))
    for entry, arguments, inputs in (
        (spec, (0, weight), (plain,)),
        (spec, (weight, 1, 0), (plain, plain)),
        (spec, (weight, 0), (plain, plain)),
        (donating, (weight, 0), (plain,)),
        (spec, (weight, 0), (packed,)),
    ):
        executable: Any = None
        assert (
            resident_bundle.direct_call(processor(), executable, entry, arguments, inputs, (plain,))
            is None
        )
