"""Large weights in an archive, wherever they are held; and what an archive may not replace."""

from __future__ import annotations

import mmap
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.write.atomic_files import LARGE_BYTES
from aotc.bundle.write.bundle_writer import Blob, Form, TargetParts, assemble, pack, write_files
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import map_file
from aotc_runtime.system.streamed_bundle import look_into, pass_file
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.bundle_examination import read_unverified

WEIGHTS = os.urandom(LARGE_BYTES + 12_345)

HELD: dict[str, Callable[[Path], bytes | memoryview]] = {
    "in memory": lambda file: WEIGHTS,
    "a view of memory": lambda file: memoryview(WEIGHTS),
    "mapped": lambda file: map_file(file, mmap.mmap),
    "passed, its file closed": pass_file,
}


@pytest.mark.parametrize("held", HELD)
def test_weights_are_written_whole_wherever_they_are_held(held: str, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(WEIGHTS)
    digest, data = sha256(WEIGHTS), HELD[held](file)
    good: list[int] = []
    write_files(
        tmp_path / "archive",
        Form.ARCHIVE,
        {},
        {digest: Blob(data, oci_layout.WEIGHTS_TYPE, known=digest)},
        lambda written, hashed: good.append(hashed[digest]),
    )
    assert good == [len(WEIGHTS)]
    with tarfile.open(tmp_path / "archive") as archive:
        (member,) = archive.getmembers()
        found = archive.extractfile(member)
        assert found is not None and found.read() == WEIGHTS


@pytest.mark.parametrize("form", Form)
def test_what_came_to_lie_in_its_place_meanwhile_is_not_replaced(
    digits_bundle: tuple[Path, Path], tmp_path: Path, form: Form
) -> None:
    contents, _ = read_unverified(look_into(digits_bundle[0]))
    (manifest,) = contents.manifests.values()
    blobs = [Blob(contents.blobs[d], kind) for d, (kind, _) in references(manifest).items()]
    place, mine = tmp_path / "place", tmp_path / "place"
    if form is Form.LAYOUT:
        place.mkdir()
        mine = place / "thesis"
    mine.write_text("all of it")
    with pytest.raises(UsageError) as refused:
        pack(place, form, assemble([TargetParts(manifest, blobs)]))
    assert refused.value.code == "AOTC-E004"
    assert mine.read_text() == "all of it"
