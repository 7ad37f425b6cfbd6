"""One value, one spelling."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import BundleFormatError

from ..samples import refused

KEYS = st.text(st.characters(codec="ascii"), max_size=5)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_the_encoding_is_that_of_rfc_8785(value: object) -> None:
    """For our values the standard library's sorted JSON is RFC 8785: ASCII keys, no floats."""
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_json.encode(value) == expected.encode()


@given(VALUES)
def test_what_was_encoded_decodes_to_itself(value: object) -> None:
    assert canonical_json.decode(
        canonical_json.encode({"a": value}), dict[str, object], where="x"
    ) == {"a": value}


@pytest.mark.parametrize(
    "data",
    [b'{"a":1 }', b'{"b":1,"a":2}', b'{"a":1,"a":1}', b'{"\\u0061":1}', b'{"a":1}\n', b'{"a":1e0}'],
)
def test_another_spelling_is_refused(data: bytes) -> None:
    with pytest.raises(BundleFormatError) as refused:
        canonical_json.decode(data, dict[str, object], where="here")
    assert refused.value.code == "AOTC-E102"
    assert refused.value.findings[0].where == "here"


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b"\xff", b"[" * 10**5, b'{"a":"\xff"}'])
def test_what_is_not_of_the_type_is_refused(data: bytes) -> None:
    with refused("AOTC-E101"):
        canonical_json.decode(data, dict[str, str], where="here")
