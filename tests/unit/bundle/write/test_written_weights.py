"""Weights are written as they are, and hashed once."""

import mmap
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.write.atomic_files import no_check
from aotc.bundle.write.bundle_writer import Blob, Form, TargetParts, assemble, pack, write_files
from aotc.bundle.write.hashed_weights import hash_rest, sizes_of, unmodified
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, IntegrityError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import map_file
from aotc_runtime.system.streamed_bundle import open_streamed, pass_file
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle
from tests.refusals import error_of

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


def parts(bundle: Path, folder: Path, *, spoiled: bool) -> TargetParts:
    """Return what the bundle holds, weights in files of their own; of one of them another byte."""
    contents, _ = read_unverified(open_streamed(bundle))
    (manifest,) = contents.manifests.values()
    blobs = []
    for digest, (media_type, _) in references(manifest).items():
        data = bytes(contents.blobs[digest])
        file = None
        if media_type == oci_layout.WEIGHTS_TYPE:
            data = data[:-1] + bytes([data[-1] ^ spoiled])
            file = folder / digest[7:]
            file.write_bytes(data)
        blobs.append(Blob(data, media_type, file, digest))
    return TargetParts(manifest, blobs)


@pytest.mark.parametrize("form", Form)
def test_known_digests_give_same_bundle(digits_bundle: Bundle, tmp_path: Path, form: Form) -> None:
    made = pack(
        tmp_path / "made", form, assemble([parts(digits_bundle[0], tmp_path, spoiled=False)])
    )
    assert made.root_digest == read_unverified(open_streamed(digits_bundle[0]))[0].root_digest
    assert read_unverified(open_streamed(made.path))[0].root_digest == made.root_digest


@pytest.mark.parametrize("form", Form)
def test_wrong_bytes_are_never_left(digits_bundle: Bundle, tmp_path: Path, form: Form) -> None:
    (tmp_path / "result").mkdir()
    refused = error_of(
        IntegrityError,
        pack,
        tmp_path / "result" / "made",
        form,
        assemble([parts(digits_bundle[0], tmp_path, spoiled=True)]),
    )
    assert refused.code == "AOTC-E201"
    assert list((tmp_path / "result").iterdir()) == []


@pytest.mark.parametrize("form", Form)
def test_weights_of_shorter_file_leave_nothing(form: Form, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(WEIGHTS)
    blobs = {"sha256:0": Blob(pass_file(file), oci_layout.WEIGHTS_TYPE, known="sha256:0")}
    os.truncate(file, 100)
    refused = error_of(AotcError, write_files, tmp_path / "made", form, {}, blobs, no_check)
    assert refused.code == "AOTC-E206"
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


@pytest.mark.parametrize("form", Form)
def test_other_file_there_is_kept(digits_bundle: Bundle, tmp_path: Path, form: Form) -> None:
    place = mine = tmp_path / "place"
    if form is Form.LAYOUT:
        place.mkdir()
        mine = place / "thesis"
    mine.write_text("all of it")
    with pytest.raises(UsageError) as refused:
        pack(place, form, assemble([parts(digits_bundle[0], tmp_path, spoiled=False)]))
    assert refused.value.code == "AOTC-E004"
    assert mine.read_text() == "all of it"


def weights_of(bundle: Path) -> list[tuple[str, bytes]]:
    contents, _ = read_unverified(open_streamed(bundle))
    (image,) = contents.targets.values()
    layers = [layer.digest for layer in image.layers if layer.mediaType == oci_layout.WEIGHTS_TYPE]
    return [(digest, bytes(contents.blobs[digest])) for digest in layers]


def test_weights_are_hashed_unless_written(digits_bundle: Bundle, tmp_path: Path) -> None:
    data = digits_bundle[0].read_bytes()
    (digest, weights), *_ = weights_of(digits_bundle[0])
    at = data.index(weights) + len(weights) - 1
    (tmp_path / "b.aotb").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    source = open_streamed(tmp_path / "b.aotb")
    contents, _ = read_unverified(source, sizes_of(source))
    hash_rest(source, contents, {digest})
    assert error_of(IntegrityError, hash_rest, source, contents, ()).code == "AOTC-E201"


def test_everything_else_is_hashed_at_once(digits_bundle: Bundle, tmp_path: Path) -> None:
    data = digits_bundle[0].read_bytes()
    contents, _ = read_unverified(open_streamed(digits_bundle[0]))
    (manifest,) = contents.manifests.values()
    ref = manifest.entry_points["predict"].profiles[0].executable
    executable = bytes(contents.blobs[ref.digest])
    at = data.index(executable)
    (tmp_path / "b.aotb").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    source = open_streamed(tmp_path / "b.aotb")
    error_of(IntegrityError, read_unverified, source, sizes_of(source))
    hash_rest(source, contents, ())  # of the weights, which are whole


def test_document_is_reused_only_as_hashed(digits_bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "copy.aotb"
    path.write_bytes(digits_bundle[0].read_bytes())
    source = open_streamed(path)
    root = read_unverified(source)[0].root_digest
    assert sha256(unmodified(source, root)) == root
    with path.open("r+b") as file:
        file.write(path.read_bytes().replace(b"manifests", b"Manifests"))
    for digest in (root, "sha256:" + "0" * 64):
        (finding,) = error_of(IntegrityError, unmodified, source, digest).findings
        assert (finding.code, finding.expected) == ("AOTC-E201", digest)
