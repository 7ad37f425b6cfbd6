"""Tests of the labels of executables."""

from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key, label

NAMES = st.sampled_from(["a", "batch", "seq"])
SIZES = st.dictionaries(NAMES, st.integers(1, 100))


@given(NAMES, SIZES)
def test_key_is_the_same_in_any_order(name: str, sizes: dict[str, int]) -> None:
    key = executable_key(name, sizes)
    again = executable_key(name, dict(reversed(sizes.items())))
    assert (key, hash(key), key.label) == (again, hash(again), label(name, sizes))
    assert dict(key.sizes) == sizes


def test_keys_are_in_the_order_of_their_numbers_not_of_their_labels() -> None:
    keys = [executable_key("f", {"n": n}) for n in (64, 8, 1)] + [ExecutableKey("e")]
    assert [key.label for key in sorted(keys)] == ["e", "f[n=1]", "f[n=8]", "f[n=64]"]
