"""Archives that are cut, extended, or hold what a bundle may not hold."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from aotc_runtime import limits
from aotc_runtime.errors import AotcError, BundleFormatError
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.system.store import open_bundle

from .archives import archive, entries_of, entry, on_disk
from .tampering import ACCEPTED, BLOBS, MemoryBundle, code_of, write_folder


def open_code(data: bytes, folder: Path) -> str:
    """The code that opening this archive is refused with, or "accepted"."""
    path = folder / "bundle.aotb"
    path.write_bytes(data)
    try:
        open_bundle(path)
    except BundleFormatError as error:
        return error.code
    return ACCEPTED


def test_a_bundle_cut_anywhere_is_refused(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    data = archive(entries_of(genuine))
    end_mark = len(data.rstrip(b"\0")) + 511 & ~511
    path = tmp_path / "bundle.aotb"
    for length in {0, 1, 511, 512, 513, 1024, *range(1500, end_mark, 9973), end_mark}:
        path.write_bytes(data[:length])
        with pytest.raises(BundleFormatError) as refused:
            open_bundle(path)
        assert refused.value.code == "AOTC-E103", length


def test_an_archive_without_its_padding_is_still_the_bundle(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    """Two zero blocks end an archive; tools differ in what they add behind."""
    data = archive(entries_of(genuine)).rstrip(b"\0")
    path = tmp_path / "bundle.aotb"
    path.write_bytes(data + bytes(-len(data) % 512 + 1024))
    assert code_of(open_bundle(path), policy, host) == ACCEPTED


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (b"x", "AOTC-E105"),
        (bytes(1024) + b"x", "AOTC-E105"),
        (bytes(2**20), "AOTC-E105"),
    ],
    ids=["a byte", "a byte after zeros", "a million zeros"],
)
def test_bytes_behind_the_archive_are_refused(
    tail: bytes, code: str, genuine: MemoryBundle, tmp_path: Path
) -> None:
    assert open_code(archive(entries_of(genuine)) + tail, tmp_path) == code


def test_a_second_archive_behind_the_first_is_refused(
    genuine: MemoryBundle, tmp_path: Path
) -> None:
    data = archive(entries_of(genuine))
    assert open_code(data + data, tmp_path) == "AOTC-E105"


def test_bytes_hidden_in_a_members_padding_are_refused(
    genuine: MemoryBundle, tmp_path: Path
) -> None:
    data = bytearray(archive(entries_of(genuine)))
    assert genuine.files["oci-layout"] == data[512 : 512 + 30]
    data[512 + 30] = 1
    assert open_code(bytes(data), tmp_path) == "AOTC-E105"


HEX = BLOBS + "0" * 64


@pytest.mark.parametrize(
    ("name", "kind", "link", "code"),
    [
        ("index.json", tarfile.REGTYPE, "", "AOTC-E104"),
        (HEX, tarfile.SYMTYPE, "/etc/passwd", "AOTC-E104"),
        (HEX, tarfile.LNKTYPE, "index.json", "AOTC-E104"),
        (HEX, tarfile.CHRTYPE, "", "AOTC-E104"),
        (HEX, tarfile.FIFOTYPE, "", "AOTC-E104"),
        ("blobs", tarfile.DIRTYPE, "", "AOTC-E104"),
        (HEX, tarfile.CONTTYPE, "", "AOTC-E104"),
        (HEX, tarfile.AREGTYPE, "", "AOTC-E104"),
        (HEX, tarfile.REGTYPE, "index.json", "AOTC-E104"),
        (f"/{HEX}", tarfile.REGTYPE, "", "AOTC-E104"),
        (f"../{HEX}", tarfile.REGTYPE, "", "AOTC-E104"),
        (f"blobs/../{HEX}", tarfile.REGTYPE, "", "AOTC-E104"),
        (f"./{HEX}", tarfile.REGTYPE, "", "AOTC-E104"),
        (f"blobs//{HEX[6:]}", tarfile.REGTYPE, "", "AOTC-E104"),
        ("index.json\\", tarfile.REGTYPE, "", "AOTC-E104"),
        ("índex.json", tarfile.REGTYPE, "", "AOTC-E104"),
        (".hidden", tarfile.REGTYPE, "", "AOTC-E104"),
        ("README", tarfile.REGTYPE, "", "AOTC-E109"),
        ("INDEX.JSON", tarfile.REGTYPE, "", "AOTC-E109"),
        (HEX[:-1], tarfile.REGTYPE, "", "AOTC-E109"),
        (HEX[:-1] + "G", tarfile.REGTYPE, "", "AOTC-E109"),
        (BLOBS + "A" * 64, tarfile.REGTYPE, "", "AOTC-E109"),
        ("blobs/sha512/" + "0" * 64, tarfile.REGTYPE, "", "AOTC-E109"),
        (HEX + "/x", tarfile.REGTYPE, "", "AOTC-E109"),
    ],
)
def test_a_member_that_a_bundle_may_not_hold_is_refused(
    name: str, kind: bytes, link: str, code: str, genuine: MemoryBundle, tmp_path: Path
) -> None:
    extra = entry(name, b"", kind, link)
    for entries in ([*entries_of(genuine), extra], [extra, *entries_of(genuine)]):
        assert open_code(archive(entries), tmp_path) == code


def test_every_member_twice_is_refused_even_with_the_same_bytes(
    genuine: MemoryBundle, tmp_path: Path
) -> None:
    for name, data in genuine.members().items():
        assert open_code(archive([*entries_of(genuine), entry(name, data)]), tmp_path) == (
            "AOTC-E104"
        )


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_extension_records_that_rename_a_member_are_refused(
    form: int, genuine: MemoryBundle, tmp_path: Path
) -> None:
    extra = entry("index.json" + "x" * 200, b"{}")
    assert open_code(archive([*entries_of(genuine), extra], form), tmp_path) == "AOTC-E104"


def test_pax_records_that_change_a_size_are_refused(genuine: MemoryBundle, tmp_path: Path) -> None:
    first, *others = entries_of(genuine)
    first[0].pax_headers = {"size": "2"}
    assert open_code(archive([first, *others], tarfile.PAX_FORMAT), tmp_path) == "AOTC-E104"


def test_an_archive_repacked_by_another_tar_is_still_the_bundle(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.aotb"
    entries = sorted(entries_of(genuine), key=lambda item: item[0].name, reverse=True)
    for info, _ in entries:
        info.mtime, info.uid, info.uname = 1_700_000_000, 1000, "somebody"
    path.write_bytes(archive(entries, tarfile.USTAR_FORMAT))
    assert code_of(open_bundle(path), policy, host) == ACCEPTED


@pytest.mark.parametrize(
    "field",
    [b"\x80" + b"\xff" * 11, b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7, b"77777777777\0"],
    ids=["as large as it gets", "8 EiB", "8 GiB"],
)
def test_a_member_that_claims_to_be_huge_is_refused_without_being_read(
    field: bytes, genuine: MemoryBundle, tmp_path: Path
) -> None:
    data = bytearray(archive(entries_of(genuine)))
    data[124:136] = field
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    assert open_code(bytes(data), tmp_path) == "AOTC-E103"


@pytest.mark.parametrize("field", [b"-0000000001\0", b"\xff" * 12, b" " * 12, b"00000000009\0"])
def test_a_size_that_is_no_octal_number_is_refused(
    field: bytes, genuine: MemoryBundle, tmp_path: Path
) -> None:
    data = bytearray(archive(entries_of(genuine)))
    data[124:136] = field
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    assert open_code(bytes(data), tmp_path) == "AOTC-E103"


def test_more_members_than_the_limit_are_refused(
    genuine: MemoryBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = archive(entries_of(genuine))
    monkeypatch.setattr(limits, "BLOBS_MAX", len(genuine.members()) - 1)
    assert open_code(data, tmp_path) == "AOTC-E104"
    with pytest.raises(AotcError) as refused:
        open_bundle(write_folder(tmp_path / "layout", genuine))
    assert refused.value.code == "AOTC-E109"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04" + bytes(600), b"\x1f\x8b" + bytes(600)])
def test_files_of_other_formats_are_refused(data: bytes, tmp_path: Path) -> None:
    assert open_code(data, tmp_path) == "AOTC-E103"


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleFormatError) as refused:
        open_bundle(tmp_path / "missing.aotb")
    assert refused.value.code == "AOTC-E108"


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BundleFormatError) as refused:
        open_bundle(tmp_path / "pipe")
    assert refused.value.code == "AOTC-E108"


def link_instead(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")


def test_links_and_special_files_in_a_folder_are_refused(
    genuine: MemoryBundle, tmp_path: Path
) -> None:
    for number, name in enumerate(["index.json", "blobs", "blobs/sha256"]):
        folder = write_folder(tmp_path / str(number) / "layout", genuine)
        link_instead(folder, name)
        with pytest.raises(BundleFormatError) as refused:
            open_bundle(folder)
        assert refused.value.code == "AOTC-E109"
    folder = write_folder(tmp_path / "layout", genuine)
    os.mkfifo(folder / "blobs" / "sha256" / ("0" * 64))
    with pytest.raises(BundleFormatError) as refused:
        open_bundle(folder)
    assert refused.value.code == "AOTC-E109"


@pytest.mark.parametrize("name", [b"README", b"blobs/x", b".git", b"blobs/sha256/\xff\xfe"])
def test_other_files_in_a_folder_are_refused(
    name: bytes, genuine: MemoryBundle, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "layout", genuine)
    Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(b"x")
    with pytest.raises(BundleFormatError) as refused:
        open_bundle(folder)
    assert refused.value.code == "AOTC-E109"
    str(refused.value).encode()
    [value.encode() for finding in refused.value.findings for value in finding.to_json().values()]


def test_a_folder_without_a_layout_file_is_refused(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    with pytest.raises(BundleFormatError) as refused:
        open_bundle(tmp_path)
    assert refused.value.code == "AOTC-E109"
    for name in ("oci-layout", "index.json"):
        source = open_bundle(on_disk(genuine.without(name), "archive", tmp_path))
        assert code_of(source, policy, host) == "AOTC-E110"
