"""One value, one spelling."""

import json

from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.base import canonical_json

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
