"""OCI documents, DSSE envelopes, in-toto statements and foreign JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.base import canonical_json
from aotc_runtime.base.canonical_json import decode_foreign
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


def test_an_envelope_may_hold_fields_we_do_not_know() -> None:
    data = b'{"payload":"","payloadType":"x","signatures":[{"sig":"","cert":"y"}],"more":1}'
    envelope = decode_foreign(data, in_toto.Envelope, where="x")
    assert envelope.signatures == (in_toto.Signature(sig=""),)


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
