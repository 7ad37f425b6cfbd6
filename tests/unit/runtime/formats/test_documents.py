"""OCI documents, DSSE envelopes, in-toto statements and foreign JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.base import canonical_json
from aotc_runtime.base.canonical_json import check_keys, decode_foreign
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats import in_toto, oci_layout

from ..samples import refused


def test_dsse_signs_what_its_specification_gives_as_an_example() -> None:
    """https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md, test vectors."""
    encoded = in_toto.pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(st.text(max_size=9), st.binary(max_size=9), st.text(max_size=9), st.binary(max_size=9))
def test_payloads_differ(kind: str, payload: bytes, other_kind: str, other_payload: bytes) -> None:
    same = in_toto.pre_authentication_encoding(
        kind, payload
    ) == in_toto.pre_authentication_encoding(other_kind, other_payload)
    assert same == ((kind, payload) == (other_kind, other_payload))


@pytest.mark.parametrize(
    "text", ["A", "AA", "AA=", "AB==", "AAA", "A A=", "AA==\n", "AA===", "_-==", "é===", "AA==AA=="]
)
def test_base64_in_another_spelling_is_refused(text: str) -> None:
    with refused("AOTC-E107"):
        in_toto.decode_base64(text, where="x")


def test_an_envelope_may_hold_fields_we_do_not_know() -> None:
    data = b'{"payload":"","payloadType":"x","signatures":[{"sig":"","cert":"y"}],"more":1}'
    envelope = decode_foreign(data, in_toto.Envelope, where="x")
    assert envelope.signatures == (in_toto.Signature(sig=""),)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"b":{"a":1,"a":2}}',
        b'[{"a":1},[{"b":1,"c":2,"b":3}]]',
        b'{"a":1,"\\u0061":1}',
    ],
)
def test_a_key_that_stands_twice_anywhere_is_found(data: bytes) -> None:
    with pytest.raises(ValueError, match="twice"):
        check_keys(data)


def test_the_same_key_in_different_objects_is_no_repetition() -> None:
    check_keys(b'[{"a":{"a":1}},{"a":2}]')


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"{}", b"[" * 10**5, b'{"a":1,"a":1}', b"\xef\xbb\xbf{}"]
)
def test_foreign_json_that_is_not_of_the_type_is_refused(data: bytes) -> None:
    with pytest.raises(BundleFormatError) as refused:
        decode_foreign(data, oci_layout.Layout, where="here")
    assert refused.value.code == "AOTC-E106"
    assert refused.value.findings[0].where == "here"


@pytest.mark.parametrize(
    "change",
    [
        {"size": -1},
        {"size": 1.5},
        {"digest": "sha256:x"},
        {"digest": "sha512:" + "0" * 128},
        {"unknown": 1},
        {"platform": {"architecture": "amd64", "os": "linux", "unknown": 1}},
        {"mediaType": 1},
    ],
)
def test_descriptors_below_the_root_are_strict(change: dict[str, object]) -> None:
    good = {"mediaType": "x", "digest": "sha256:" + "0" * 64, "size": 1}
    canonical_json.decode(canonical_json.encode(good), oci_layout.Descriptor, where="x")
    with refused("AOTC-E101"):
        canonical_json.decode(
            canonical_json.encode({**good, **change}), oci_layout.Descriptor, where="x"
        )
