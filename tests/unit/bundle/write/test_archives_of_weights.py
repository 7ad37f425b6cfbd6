"""Large weights in an archive, wherever they are held; and what an archive may not replace."""

from __future__ import annotations

import mmap
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.write.atomic_files import no_check
from aotc.bundle.write.bundle_writer import Blob, Form, TargetParts, assemble, pack, write_files
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import map_file
from aotc_runtime.system.streamed_bundle import look_into, pass_file
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.bundle_examination import read_unverified

WEIGHTS = os.urandom(2**20 + 12_345)

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
    write_files(
        tmp_path / "archive",
        Form.ARCHIVE,
        {},
        {digest: Blob(data, oci_layout.WEIGHTS_TYPE, known=digest)},
        no_check,
    )
    with tarfile.open(tmp_path / "archive") as archive:
        (member,) = archive.getmembers()
        found = archive.extractfile(member)
        assert found is not None and found.read() == WEIGHTS


@pytest.mark.parametrize("form", Form)
def test_weights_whose_file_became_shorter_are_refused_and_nothing_is_left(
    form: Form, tmp_path: Path
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(WEIGHTS)
    blobs = {"sha256:0": Blob(pass_file(file), oci_layout.WEIGHTS_TYPE, known="sha256:0")}
    os.truncate(file, 100)
    with pytest.raises(AotcError) as refused:
        write_files(tmp_path / "made", form, {}, blobs, no_check)
    assert refused.value.code == "AOTC-E206"
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


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
