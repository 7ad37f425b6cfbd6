"""Documented limits at their edge, in files that hold little but their size (sparse ones)."""

from __future__ import annotations

import json
import os
import struct
import tarfile
from pathlib import Path

import pytest

from aotc.packing import descriptors
from aotc.packing.bundle import Form, rooted, write
from aotc_runtime import limits
from aotc_runtime.digest import sha256
from aotc_runtime.errors import BundleFormatError
from aotc_runtime.formats import oci
from aotc_runtime.formats.oci import Index, Platform
from aotc_runtime.formats.tar import BLOCK, read_members
from aotc_runtime.formats.tensors import read_tensors
from aotc_runtime.system.passing import look_into, pass_file
from aotc_runtime.verification.examine import read_unverified

GIB = 2**30
OCTAL_MAX = 8 * GIB - 1
"""The largest size that tar writes in octal digits; a larger one has a spelling of its own."""


def header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("size", [OCTAL_MAX, OCTAL_MAX + 1, 200 * GIB])
def test_a_blob_of_an_archive_may_be_larger_than_octal_digits_say(
    size: int, tmp_path: Path
) -> None:
    path = tmp_path / "large.tar"
    padded = -(-size // BLOCK) * BLOCK
    with path.open("wb") as file:
        file.write(header("first", size))
        file.seek(padded, os.SEEK_CUR)
        file.write(header("last", 3) + b"end".ljust(BLOCK, b"\0") + bytes(2 * BLOCK))
    members = read_members(pass_file(path), where="x")
    assert (members["first"].size, members["last"].offset) == (size, padded + 2 * BLOCK)
    os.truncate(path, padded)
    with pytest.raises(BundleFormatError) as refused:
        read_members(pass_file(path), where="x")
    assert refused.value.code == "AOTC-E103"


def test_a_tensor_may_have_more_bytes_than_32_bits_count(tmp_path: Path) -> None:
    elements = 50 * GIB
    told = {
        "large": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]},
        "last": {"dtype": "U8", "shape": [3], "data_offsets": [4 * elements, 4 * elements + 3]},
    }
    text = json.dumps(told).encode()
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.seek(4 * elements, os.SEEK_CUR)
        file.write(b"end")
    data = pass_file(path)
    found = read_tensors(data, where="x")
    assert found["large"].shape == (elements,)
    assert bytes(data[found["last"].start : found["last"].end]) == b"end"
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(BundleFormatError):
        read_tensors(pass_file(path), where="x")


def test_an_archive_has_as_many_members_as_the_limit_and_no_more() -> None:
    data = bytearray(b"".join(header(f"m{number}", 0) for number in range(limits.BLOBS_MAX)))
    end = bytes(2 * BLOCK)
    assert len(read_members(memoryview(data + end), where="x")) == limits.BLOBS_MAX
    data += header("more", 0)
    with pytest.raises(BundleFormatError) as refused:
        read_members(memoryview(data + end), where="x")
    assert refused.value.code == "AOTC-E104"


@pytest.mark.parametrize(("more", "code"), [(0, "AOTC-E101"), (1, "AOTC-E111")])
def test_a_manifest_is_read_up_to_its_limit(more: int, code: str, tmp_path: Path) -> None:
    """It is zeros here: read, they are no JSON."""
    size = limits.MANIFEST_BYTES_MAX + more
    image = descriptors.image_descriptor(
        bytes(size),
        artifactType="",
        platform=Platform(architecture="amd64", os="linux", variant="v3"),
        annotations={oci.TARGET_ANNOTATION: "x"},
    )
    made = rooted([image], {}, {})
    folder, index = (
        tmp_path / "layout",
        Index(schemaVersion=2, mediaType=oci.INDEX_TYPE, manifests=(made.root,)),
    )
    write(folder, Form.LAYOUT, index, made.blobs)
    blob = folder / oci.BLOB_FOLDER / sha256(bytes(size))[7:]
    blob.touch()
    os.truncate(blob, size)
    with pytest.raises(BundleFormatError) as refused:
        read_unverified(look_into(folder))
    assert refused.value.code == code
