"""Archives that are cut, extended, or hold what a bundle may not hold."""

import tarfile
from pathlib import Path

import pytest

from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError, BundleFormatError
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system import layout_folder
from aotc_runtime.system.bundle_files import open_bundle
from tests.refusals import error_of

from .archives import archive, entries_of
from .tampering import ACCEPTED, MemoryBundle, code_of, write_folder


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
        assert error_of(BundleFormatError, open_bundle, path).code == "AOTC-E103", length


def test_an_archive_without_its_padding_is_still_the_bundle(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    """Two zero blocks end an archive; tools differ in what they add behind."""
    data = archive(entries_of(genuine)).rstrip(b"\0")
    path = tmp_path / "bundle.aotb"
    path.write_bytes(data + bytes(-len(data) % 512 + 1024))
    assert code_of(open_bundle(path), policy, host) == ACCEPTED


def test_an_archive_repacked_by_another_tar_is_still_the_bundle(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.aotb"
    entries = sorted(entries_of(genuine), key=lambda item: item[0].name, reverse=True)
    for info, _ in entries:
        info.mtime, info.uid, info.uname = 1_700_000_000, 1000, "somebody"
    path.write_bytes(archive(entries, tarfile.USTAR_FORMAT))
    assert code_of(open_bundle(path), policy, host) == ACCEPTED


def test_countless_folders_are_refused_unlisted(genuine: MemoryBundle, tmp_path: Path) -> None:
    layout = write_folder(tmp_path / "layout", genuine)
    for number in range(layout_folder.FOLDERS_MAX - 2):
        (layout / "empty" / str(number)).mkdir(parents=True)
    refused = error_of(AotcError, open_bundle, layout)
    assert (refused.code, refused.findings[0].found) == ("AOTC-E109", "more")
    (layout / "empty" / "0").rmdir()
    assert open_bundle(layout).digests() == genuine.digests()


def test_more_members_than_the_limit_are_refused(
    genuine: MemoryBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = archive(entries_of(genuine))
    monkeypatch.setattr(limits, "BLOBS_MAX", len(genuine.members()) - 1)
    assert open_code(data, tmp_path) == "AOTC-E104"
    refused = error_of(AotcError, open_bundle, write_folder(tmp_path / "layout", genuine))
    assert refused.code == "AOTC-E109"
