"""Sizes are bounded before memory is: what a file merely claims allocates nothing."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import decode_toml
from tests.running import printed

from .archives import archive, entries_of
from .tampering import Documents, MemoryBundle, take_apart
from .tampering import put_together as together

READING = """
import json, resource, sys
from pathlib import Path
from aotc_runtime.formats.safetensors_reader import read_tensors
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.base.errors import AotcError
try:
    read_unverified(open_bundle("/nowhere"))
except AotcError:
    pass  # imports and types are made
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
file = Path(sys.argv[1]).stat().st_size if Path(sys.argv[1]).is_file() else 0
resource.setrlimit(resource.RLIMIT_AS, (used + file + 48 * 2**20,) * 2)
try:
    if sys.argv[2] == "tensors":
        read_tensors(memoryview(Path(sys.argv[1]).read_bytes()), where="x")
    else:
        read_unverified(open_bundle(sys.argv[1]))
except AotcError as error:
    sys.stdout.write(error.code)
"""


def code_with_little_memory(path: Path, what: str = "bundle") -> str:
    """The code of the refusal, by a process that may take 48 MiB more than the file has."""
    return printed(READING, path, what)


def claimed(field: bytes) -> Callable[[MemoryBundle], bytes]:
    """The archive whose first member claims a size."""

    def make(bundle: MemoryBundle) -> bytes:
        data = bytearray(archive(entries_of(bundle)))
        data[124:136] = field
        data[148:156] = b" " * 8
        data[148:156] = b"%06o\0 " % sum(data[:512])
        return bytes(data)

    return make


def documents(change: Callable[[Documents], object]) -> Callable[[MemoryBundle], bytes]:
    def make(bundle: MemoryBundle) -> bytes:
        parts = take_apart(bundle)
        change(parts)
        return archive(entries_of(together(parts)))

    return make


def index_of(size: int) -> Callable[[MemoryBundle], bytes]:
    def make(bundle: MemoryBundle) -> bytes:
        index = json.loads(bundle.files["index.json"])
        index["manifests"][0]["size"] = size
        bad = bundle.with_file("index.json", json.dumps(index).encode())
        return archive(entries_of(bad))

    return make


CLAIMS: dict[str, tuple[str, Callable[[MemoryBundle], bytes]]] = {
    "a member of 1 TiB": ("AOTC-E103", claimed(b"\x80" + bytes(5) + b"\1" + bytes(5))),
    "a root of 1 TiB": ("AOTC-E203", index_of(2**40)),
    "a layer of 1 TiB": ("AOTC-E205", documents(lambda d: d.image["layers"][0].update(size=2**40))),
    "weights of 1 TiB": (
        "AOTC-E205",
        documents(lambda d: d.manifest["weights"]["params"]["blobs"][0].update(size=2**40)),
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_huge_claims_are_refused_cheaply(name: str, genuine: MemoryBundle, tmp_path: Path) -> None:
    code, make = CLAIMS[name]
    path = tmp_path / "bundle.aotb"
    path.write_bytes(make(genuine))
    assert code_with_little_memory(path) == code


@pytest.mark.parametrize("name", ["index.json", "oci-layout"])
def test_sparse_tib_is_refused_unread(name: str, genuine: MemoryBundle, tmp_path: Path) -> None:
    """It takes no room on the disk, and would take 1 TiB of memory. Mapping it needs addresses."""
    from .tampering import write_folder

    folder = write_folder(tmp_path / "layout", genuine)
    os.truncate(folder / name, 2**40)
    assert code_with_little_memory(folder) == "AOTC-E108"


def test_tensors_that_claim_to_be_huge_are_refused_without_memory_for_them(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for header, code in (
        (b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}', "AOTC-E132"),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1099511627776]}}', "AOTC-E132"),
    ):
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
        assert code_with_little_memory(path, "tensors") == code
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    assert code_with_little_memory(path, "tensors") == "AOTC-E131"


@pytest.mark.parametrize(
    ("mark", "most"), [(",", limits.TOML_MARKS_MAX), (".", limits.TOML_DOTS_MAX)]
)
def test_toml_has_as_many_parts_as_the_limits_and_no_more(mark: str, most: int) -> None:
    assert decode_toml("#" + mark * most) == {}
    with pytest.raises(ValueError, match="more than"):
        decode_toml("#" + mark * (most + 1))
