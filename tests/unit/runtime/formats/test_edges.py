"""Tests that values exactly at a limit, and empty ones, are accepted."""

import json
import struct
from pathlib import Path

import pytest

from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.safetensors_reader import read_tensors, tensor_views
from aotc_runtime.formats.tar_archive import BLOCK, TRAILER_BYTES_MAX, read_members
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_envelopes, read_root

from ..samples import refused

GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.mark.parametrize("shape", [(0,), (3, 0), (1,) * limits.TENSOR_RANK_MAX])
def test_tensors_may_be_empty_and_have_as_many_axes_as_the_limit(shape: tuple[int, ...]) -> None:
    size = 0 if 0 in shape else 1
    header = json.dumps({"a": {"dtype": "U8", "shape": shape, "data_offsets": [0, size]}}).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(size)
    assert read_tensors(memoryview(data), where="x")["a"].shape == shape


MOST = 2**60 - 1


@pytest.mark.parametrize(
    ("dtype", "shape", "is_accepted"),
    [
        ("F64", (0, MOST), True),
        ("F64", (MOST, 0, 1), True),
        ("F64", (0, MOST, 2), False),
        ("F64", (MOST, MOST, 0), False),
        ("F64", (0, -1), False),
        ("U8", (0, 2**63 - 1), True),
        ("I16", (0, 2**62), False),
    ],
)
def test_empty_tensor_axes_fit_array(dtype: str, shape: tuple[int, ...], is_accepted: bool) -> None:
    header = json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}}).encode()
    data = memoryview(struct.pack("<Q", len(header)) + header)
    if is_accepted:
        assert tensor_views(data, where="x")["a"][0].shape == shape
        return
    with refused("AOTC-E132"):
        read_tensors(data, where="x")


def test_a_header_may_be_as_long_as_the_limit() -> None:
    most = limits.TENSOR_HEADER_BYTES_MAX
    data = struct.pack("<Q", most) + b"{}".ljust(most + 1, b" ")
    assert read_tensors(memoryview(data)[: 8 + most], where="x") == {}
    longer = struct.pack("<Q", most + 1) + data[8:]
    with refused("AOTC-E131"):
        read_tensors(memoryview(longer), where="x")


def test_an_archive_may_end_with_as_many_zeros_as_one_tar_writes() -> None:
    assert read_members(memoryview(bytes(TRAILER_BYTES_MAX)), where="x") == {}
    with pytest.raises(BundleFormatError):
        read_members(memoryview(bytes(TRAILER_BYTES_MAX + BLOCK)), where="x")


class Layout:
    """An OCI layout with so many attestations, none of which is there."""

    name = "x"

    def __init__(self, attestations: int) -> None:
        entries = [
            (oci_layout.INDEX_TYPE, 0),
            *((oci_layout.MANIFEST_TYPE, n + 1) for n in range(attestations)),
        ]
        manifests = [
            {"mediaType": kind, "digest": f"sha256:{number:064x}", "size": 1}
            for kind, number in entries
        ]
        index = {"schemaVersion": 2, "mediaType": oci_layout.INDEX_TYPE, "manifests": manifests}
        self._files = {
            oci_layout.INDEX_FILE: json.dumps(index).encode(),
            oci_layout.LAYOUT_FILE: json.dumps(
                {"imageLayoutVersion": oci_layout.LAYOUT_VERSION}
            ).encode(),
        }

    def file(self, name: str) -> memoryview:
        return memoryview(self._files[name])

    def blob(self, digest: str) -> None:
        """None is there."""

    def digests(self) -> frozenset[str]:
        return frozenset()


def test_a_bundle_may_have_as_many_attestations_as_the_limit() -> None:
    most = limits.ATTESTATIONS_MAX
    assert len(read_root(Layout(most)).attestations) == most
    with refused("AOTC-E111"):
        read_root(Layout(most + 1))


def test_json_may_have_as_many_marks_as_the_limit() -> None:
    assert decode_foreign(b"[1,2,3]", list[int], where="x", marks=3) == [1, 2, 3]
    with refused("AOTC-E111"):
        decode_foreign(b"[1,2,3]", list[int], where="x", marks=2)


def test_the_index_may_be_as_large_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_bundle(GOLDEN / "layers.aotb")
    index = source.file(oci_layout.INDEX_FILE)
    assert index is not None
    monkeypatch.setattr(limits, "INDEX_BYTES_MAX", len(index))
    root = read_root(source)
    monkeypatch.setattr(limits, "INDEX_BYTES_MAX", len(index) - 1)
    with pytest.raises(BundleFormatError) as refused:
        read_root(source)
    assert root.attestations and refused.value.code == "AOTC-E111"


def test_attestations_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_bundle(GOLDEN / "layers.aotb")
    root = read_root(source)
    envelopes = read_envelopes(source, root)
    total = sum(entry.size for entry in root.attestations) + sum(map(len, envelopes))
    monkeypatch.setattr(limits, "ATTESTATIONS_BYTES_MAX", total)
    assert len(read_envelopes(source, root)) == len(envelopes)
    monkeypatch.setattr(limits, "ATTESTATIONS_BYTES_MAX", total - 1)
    with refused("AOTC-E111"):
        read_envelopes(source, root)
