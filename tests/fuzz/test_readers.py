"""Properties of every reader: any bytes, and good documents with something changed."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aotc_runtime.schema.trust_policy import TrustPolicy
from scripts.fuzzing.readers import READERS, read
from scripts.fuzzing.seeds import seeds
from scripts.fuzzing.toolchain import KERAS, ONNX

BOUNDED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SHALLOW = settings(BOUNDED, max_examples=12)
"""For bytes without any form, which most readers refuse at their beginning."""

JSON_READERS = (
    "index",
    "root",
    "image",
    "attestation",
    "manifest",
    "envelope",
    "statement",
    "certificate",
    "pt2_program",
    "tfhlo_document",
    *(("onnx_document",) if ONNX else ()),
    *(("keras_config",) if KERAS else ()),
    "recipe",
    "claim",
    "evidence",
    "tuning",
    "host",
    "channel_root",
    "channel_timestamp",
    "channel_snapshot",
    "channel_targets",
    "channel_first_root",
    "channel_state",
    "sigstore_material",
    "sigstore_root",
    "sigstore_file",
    "registry_root",
    "registry_referrers",
    "registry_attestation",
    "registry_tags",
    "registry_token",
    "registry_login",
    "store_record",
    "store_blob",
    "inference_request",
)

NASTY = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**400, 1e308, 0.5]),
    st.sampled_from(
        ["", "\0", "é", "\U0001f600", "a" * 300, "sha256:" + "0" * 64, "../x", "1" * 99]
    ),
    st.recursive(
        st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ),
    st.integers(min_value=1, max_value=400).map(
        lambda depth: json.loads("[" * depth + "]" * depth)
    ),
)


class Seeds(dict[str, list[bytes]]):
    """Good input by reader; hypothesis prints it with every failure."""

    def __repr__(self) -> str:
        return "the seeds"


@pytest.fixture(scope="session")
def good(digits_bundle: tuple[Path, Path]) -> Seeds:
    return Seeds(seeds(*digits_bundle))


@pytest.mark.parametrize("name", READERS)
def test_good_input_is_accepted(name: str, good: Seeds) -> None:
    assert {read(name, data) for data in good[name]} == {"accepted"}


@pytest.mark.parametrize("name", READERS)
@SHALLOW
@given(data=st.binary(max_size=600))
def test_any_bytes_are_an_answer_or_an_error_of_ours(name: str, data: bytes) -> None:
    read(name, data)


@pytest.mark.parametrize("name", READERS)
@BOUNDED
@given(choice=st.data())
def test_damaged_good_input_is_handled(name: str, choice: st.DataObject, good: Seeds) -> None:
    data = bytearray(choice.draw(st.sampled_from(good[name])))
    for _ in range(choice.draw(st.integers(min_value=1, max_value=4))):
        at = choice.draw(st.integers(min_value=0, max_value=len(data)))
        removed = choice.draw(st.sampled_from([0, 0, 1, 2, 8, 512]))
        data[at : at + removed] = choice.draw(st.binary(max_size=8))
    read(name, bytes(data))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with each of its keys."""
    found = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += [(value, key), *places(value[key])]
    return found


@pytest.mark.parametrize("name", JSON_READERS)
@BOUNDED
@given(choice=st.data())
def test_changed_value_is_handled(name: str, choice: st.DataObject, good: Seeds) -> None:
    document = json.loads(good[name][0])
    container, key = choice.draw(st.sampled_from(places(document)))
    container[key] = choice.draw(NASTY)
    read(name, json.dumps(document, sort_keys=True, separators=(",", ":")).encode())


DEEP = (b"[", b'{"a":', b"a=[", b"\x91", b"\x81\xa1a")
"""What nests without end, in JSON, TOML and MessagePack."""


@pytest.mark.parametrize("opening", DEEP)
@pytest.mark.parametrize("name", READERS)
def test_endless_nesting_is_handled(name: str, opening: bytes, good: Seeds) -> None:
    deep = opening * 100_000
    read(name, deep)
    for data in good[name]:
        for at in (1, len(data) // 2, len(data) - 2):
            read(name, data[:at] + deep + data[at:])


@pytest.mark.parametrize("name", JSON_READERS)
def test_endlessly_nested_value_is_handled(name: str, good: Seeds) -> None:
    document = json.loads(good[name][0])
    found = places(document)
    for container, key in found[:: max(1, len(found) // 40)]:
        kept, container[key] = container[key], "@"
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        container[key] = kept
        for begin, end in ((b"[", b"]"), (b'{"x":', b"}")):
            deep = begin * 100_000 + b"1" + end * 100_000
            read(name, text.replace(b'"@"', deep))
            # In a field that nobody knows.
            read(name, text.replace(b'"@"', b'{"x":' + deep + b"}"))


@BOUNDED
@given(
    header=st.dictionaries(
        st.sampled_from(["a", "b", "__metadata__", ""]),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "U8", "I64", "C64", "x"]),
                "shape": st.lists(st.sampled_from([0, 1, 2, 3, -1, 2**40, 2**63]), max_size=3),
                "data_offsets": st.lists(st.integers(-1, 24), min_size=2, max_size=2),
            }
        )
        | st.dictionaries(st.just("aotc.dtypes"), st.sampled_from(["{}", '{"a":"int4"}', "["])),
    ),
    data=st.binary(max_size=24),
)
def test_tensors_never_reach_outside_of_their_file(header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    read("tensors", len(text).to_bytes(8, "little") + text + data)


@BOUNDED
@given(
    members=st.lists(
        st.tuples(st.sampled_from(["a", "b", "blobs/x", "../x"]), st.binary(max_size=9))
    ),
    at=st.integers(0, 3000),
    byte=st.integers(0, 255),
)
def test_members_stay_within_archive(members: list[tuple[str, bytes]], at: int, byte: int) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as file:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    data = bytearray(stream.getvalue())
    data[at % len(data)] = byte
    read("tar", bytes(data))


VALUES = st.sampled_from(
    ["1", "-1", "0x" + "f" * 5000, "1e400", "nan", "true", '""', '"x"', "[]", "{}", "[[]]",
     "2026-01-01", "2026-01-01T00:00:00Z", '"sha256:' + "0" * 64 + '"', "'\\u0000'"]
)  # fmt: skip


@BOUNDED
@given(choice=st.data())
def test_policy_with_other_values_is_handled(choice: st.DataObject, good: Seeds) -> None:
    """Also where it is used, and not only where it is read."""
    names = st.sampled_from([*TrustPolicy.__struct_fields__, "x"])
    lines = [f"{choice.draw(names)} = {choice.draw(VALUES)}" for _ in range(2)]
    rest = good["policy"][0].decode()
    kept = [line for line in rest.splitlines() if not line.startswith(lines[0].split(" ")[0] + " ")]
    read("policy", "\n".join([*lines[:1], *kept]).encode())
    read("policy", "\n".join([*lines, rest]).encode())
