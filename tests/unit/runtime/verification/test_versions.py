"""The order of bundle versions."""

from itertools import pairwise

import pytest

from aotc_runtime.verification.bundle_versions import Key, version_key

ORDER = [
    *("0.0.1", "0.9", "1.0.0.dev3", "1.0.0-rc1", "1.0.0-rc9", "1.0.0-rc10", "1.0.0"),
    *("1.0.0.post1", "1.0.0.1", "1.0.1", "1.2", "1.10", "2", "2026.11.1"),
]


def key(text: str) -> Key:
    found = version_key(text)
    assert found is not None, text
    return found


@pytest.mark.parametrize(("less", "more"), list(pairwise(ORDER)))
def test_versions_are_ordered(less: str, more: str) -> None:
    assert key(less) < key(more)


@pytest.mark.parametrize("text", ["1.0", "1", "1.0.0.0", "1.0.0+cuda", "01.0.0", "1.0.0+a.b-c"])
def test_these_are_all_the_same_version(text: str) -> None:
    assert key(text) == key("1.0.0")


@pytest.mark.parametrize(
    "text",
    ["", "v1", "1.", ".1", "1.0.0.0.0", "newest", "1..0", "1 0", "1.0\n", "١.٠", "1.0-", "-1"],
)
def test_these_are_no_versions(text: str) -> None:
    assert version_key(text) is None
