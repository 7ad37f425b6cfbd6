"""Reading archives strictly: what is accepted, and what is said of a file that is none.

The attacks are in tests/hostile.
"""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats.tar_archive import BLOCK, read_members
from tests.refusals import error_of

NAMES = st.from_regex(r"\A(?:[a-z_-][a-z.]{0,5}/){0,3}[a-z0-9][a-z0-9.-]{0,9}\Z")


def archive(members: dict[str, bytes], form: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return stream.getvalue()


@given(
    st.dictionaries(NAMES, st.binary(max_size=1100), max_size=5),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT]),
)
def test_what_the_standard_library_writes_reads_back(members: dict[str, bytes], form: int) -> None:
    data = archive(members, form)
    found = read_members(memoryview(data), where="x")
    assert {n: data[m.offset : m.offset + m.size] for n, m in found.items()} == members
    assert list(found) == list(members), "in file order"
    assert all(m.offset % BLOCK == 0 for m in found.values()), "so that weights can be mapped"


WHOLE = archive({"a": bytes(600)}, tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(
    ("data", "title", "found", "expected"),
    [
        (b"name = 'digits'\n" * 40, "file is not a bundle archive", "a text file", "a tar archive"),
        (WHOLE[:100], "bundle archive is truncated", "", ""),
        (WHOLE[: BLOCK + 700], "bundle archive is truncated", "700 bytes", "600 bytes"),
        (WHOLE[: 3 * BLOCK], "bundle archive is truncated", "", ""),
        (WHOLE[: 4 * BLOCK], "bundle archive is truncated", "", ""),
    ],
)
def test_what_is_not_a_whole_archive_is_named(
    data: bytes, title: str, found: str, expected: str
) -> None:
    (said,) = error_of(BundleFormatError, read_members, memoryview(data), where="x").findings
    assert (said.code, said.title, said.found) == ("AOTC-E103", title, found)
    assert said.expected == expected
