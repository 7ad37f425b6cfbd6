"""Attacks on the formats and the store, and the code that refuses each."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from aotc_runtime.base import canonical_json, limits
from aotc_runtime.formats import extended_tensors, in_toto, safetensors_reader, tar_archive
from aotc_runtime.system import bundle_files

from .archives import archive, entries_of, entry, on_disk
from .refused_attacks import Arms, Refused, codes_in, outcome
from .tampering import (
    authenticated,
    code_of,
    envelope,
    policy_for,
    put_together,
    root_digest,
    statement_about,
    to_json,
    write_folder,
)


def with_header(change: Callable[[bytearray], None], summed: bool = True) -> Any:
    """The archive with its first header changed. summed: with a right check sum."""

    def attack(arms: Arms) -> str:
        data = bytearray(archive(entries_of(arms.genuine)))
        header = data[:512]
        change(header)
        if summed:
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
        return arms.opened(bytes(header + data[512:]))

    return attack


def put(at: int, value: bytes) -> Callable[[bytearray], None]:
    def change(header: bytearray) -> None:
        header[at : at + len(value)] = value

    return change


def with_entry(name: str, **more: Any) -> Any:
    def attack(arms: Arms) -> str:
        return arms.opened(archive([*entries_of(arms.genuine), entry(name, **more)]))

    return attack


def index_twice(arms: Arms) -> str:
    data = arms.genuine.files["index.json"]
    return arms.opened(archive([*entries_of(arms.genuine), entry("index.json", data)]))


def one_zero_block(arms: Arms) -> str:
    data = archive(entries_of(arms.genuine)).rstrip(b"\0")
    return arms.opened(data + bytes(-len(data) % 512 + 512))


def a_tail(tail: bytes) -> Any:
    return lambda arms: arms.opened(archive(entries_of(arms.genuine)) + tail)


def hidden_in_padding(arms: Arms) -> str:
    data = bytearray(archive(entries_of(arms.genuine)))
    data[512 + len(arms.genuine.files["oci-layout"])] = 1
    return arms.opened(bytes(data))


def a_linked_file(arms: Arms) -> str:
    folder = write_folder(arms.folder / "layout", arms.genuine)
    (folder / "index.json").rename(arms.folder / "index.json")
    (folder / "index.json").symlink_to(arms.folder / "index.json")
    return code_of(bundle_files.open_bundle(folder), arms.policy, arms.host)


def again_linked(arms: Arms) -> str:
    arms.folder = arms.folder / str(len(list(arms.folder.iterdir())))
    arms.folder.mkdir()
    return a_linked_file(arms)


def no_layout_file(arms: Arms) -> str:
    folder = write_folder(arms.folder / "layout", arms.genuine.without("oci-layout"))
    return code_of(bundle_files.open_bundle(folder), arms.policy, arms.host)


def a_readme(arms: Arms) -> str:
    bundle = arms.genuine.with_file("README", b"x")
    return code_of(
        bundle_files.open_bundle(on_disk(bundle, "folder", arms.folder)), arms.policy, arms.host
    )


def a_pipe(arms: Arms) -> str:
    path = arms.folder / "pipe"
    if not path.exists():
        os.mkfifo(path)
    return code_of(bundle_files.open_bundle(path), arms.policy, arms.host)


def no_file(arms: Arms) -> Any:
    return bundle_files.open_bundle(arms.folder / "missing")


def countless_values(arms: Arms) -> str:
    values = b"[" + b"[]," * limits.INDEX_MARKS_MAX + b"0]"
    data = arms.genuine.files["index.json"][:-1] + b',"more":' + values + b"}"
    return code_of(arms.genuine.with_file("index.json", data), arms.policy, arms.host)


def a_key_twice(arms: Arms) -> str:
    data = arms.genuine.files["index.json"][:-1] + b',"schemaVersion":2}'
    return code_of(arms.genuine.with_file("index.json", data), arms.policy, arms.host)


def no_json(arms: Arms) -> str:
    return code_of(arms.genuine.with_file("index.json", b"{"), arms.policy, arms.host)


def respelled(arms: Arms) -> Any:
    return canonical_json.decode(b'{"a": 1}', dict[str, int], where="x")


def not_canonical_at_all(arms: Arms) -> Any:
    return canonical_json.decode(b"[" * 100_000, dict[str, int], where="x")


def twin_of_the_signature(arms: Arms) -> str:
    document = json.loads(arms.documents.envelopes[0])
    text = document["signatures"][0]["sig"]
    twins = (
        twin
        for letter in map(chr, range(43, 123))
        if letter.isalnum() and (twin := text[:-3] + letter + "==") != text
    )
    document["signatures"][0]["sig"] = next(
        twin for twin in twins if base64.b64decode(twin) == base64.b64decode(text)
    )
    arms.documents.envelopes = [to_json(document)]
    return code_of(put_together(arms.documents), arms.policy, arms.host)


def no_base64(arms: Arms) -> Any:
    return in_toto.decode_base64("é", where="x")


def the_bare_payload_signed(arms: Arms) -> str:
    payload = to_json(statement_about(root_digest(arms.documents)))
    arms.documents.envelopes = [envelope(payload, (arms.ours.key_id, arms.ours.sign(payload)))]
    return code_of(put_together(arms.documents), policy_for(arms.ours), arms.host)


def another_payload_type(arms: Arms) -> str:
    payload = to_json(statement_about(root_digest(arms.documents)))
    signature = arms.ours.sign(authenticated(payload, "text/plain"))
    arms.documents.envelopes = [envelope(payload, (arms.ours.key_id, signature))]
    return code_of(put_together(arms.documents), policy_for(arms.ours), arms.host)


def tensor(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def reading(header: dict[str, Any] | bytes, data: bytes = b"", length: int | None = None) -> Any:
    """Reading a safetensors file with this header and data."""
    text = header if isinstance(header, bytes) else to_json(header)
    blob = (len(text) if length is None else length).to_bytes(8, "little") + text + data

    def attack(arms: Arms) -> Any:
        return safetensors_reader.read_tensors(memoryview(blob), where="x")

    return attack


F32 = tensor("F32", [1], 0, 4)


def _typed(dtypes: str, entry: Any) -> dict[str, Any]:
    """A header whose metadata says of what type its one tensor is."""
    return {"__metadata__": {"aotc.dtypes": dtypes}, "a": entry}


TWICE = b'{"a":' + to_json(F32) + b',"a":' + to_json(F32) + b"}"

ATTACKS = [
    Refused(with_header(put(257, b"x")), "AOTC-E103"),
    Refused(with_header(put(136, b"1"), summed=False), "AOTC-E103"),
    Refused(with_header(put(156, b"7")), "AOTC-E104"),
    Refused(with_header(put(157, b"x")), "AOTC-E104"),
    Refused(with_header(put(345, b"x")), "AOTC-E104"),
    Refused(with_entry("../index.json"), "AOTC-E104"),
    Refused(with_header(put(124, b"+0000000036")), "AOTC-E103"),
    Refused(with_header(put(124, b"\0" + b"0000000036")), "AOTC-E103"),
    Refused(hidden_in_padding, "AOTC-E105"),
    Refused(index_twice, "AOTC-E104"),
    Refused(one_zero_block, "AOTC-E103"),
    Refused(a_tail(bytes(2**20)), "AOTC-E105"),
    Refused(a_tail(bytes(511) + b"x"), "AOTC-E105"),
    Refused(a_tail(b"\0"), "AOTC-E105"),
    Refused(a_pipe, "AOTC-E108"),
    Refused(no_file, "AOTC-E108"),
    Refused(again_linked, "AOTC-E109"),
    Refused(no_layout_file, "AOTC-E109"),
    Refused(a_readme, "AOTC-E109"),
    Refused(a_key_twice, "AOTC-E106"),
    Refused(countless_values, "AOTC-E111"),
    Refused(no_json, "AOTC-E106"),
    Refused(respelled, "AOTC-E102"),
    Refused(not_canonical_at_all, "AOTC-E101"),
    Refused(twin_of_the_signature, "AOTC-E107"),
    Refused(no_base64, "AOTC-E107"),
    Refused(the_bare_payload_signed, "AOTC-E303"),
    Refused(another_payload_type, "AOTC-E303"),
    Refused(reading(b"", length=0), "AOTC-E131"),
    Refused(reading({"a": tensor("F32", [0], 0, 0)}, length=2**20), "AOTC-E131"),
    Refused(reading(b" " + to_json({"a": F32}), bytes(4)), "AOTC-E131"),
    Refused(reading(TWICE, bytes(4)), "AOTC-E131"),
    Refused(reading({"__metadata__": {"a": 1}, "a": F32}, bytes(4)), "AOTC-E131"),
    Refused(
        reading(_typed('{"a":"int4","a":"int4"}', tensor("I8", [4], 0, 4)), bytes(4)), "AOTC-E131"
    ),
    Refused(reading(_typed('{"b":"int4"}', F32), bytes(4)), "AOTC-E131"),
    Refused(reading(_typed('{"a":"int4"}', F32), bytes(4)), "AOTC-E132"),
    Refused(reading(_typed('{"a":"complex128"}', tensor("F64", [1], 0, 8)), bytes(8)), "AOTC-E132"),
    Refused(reading({"a": tensor("F16X", [1], 0, 4)}, bytes(4)), "AOTC-E132"),
    Refused(reading({"a": tensor("F32", [1] * 65, 0, 4)}, bytes(4)), "AOTC-E132"),
    Refused(reading({"a": tensor("F32", [-1, -1], 0, 4)}, bytes(4)), "AOTC-E132"),
    Refused(reading({"a": tensor("F32", [0, 2**40, 2**40], 0, 0)}, b""), "AOTC-E132"),
    Refused(reading({"a": tensor("F32", [2], 0, 4)}, bytes(4)), "AOTC-E132"),
    Refused(reading({"a": F32, "b": tensor("F32", [1], 2, 6)}, bytes(6)), "AOTC-E133"),
    Refused(reading({"a": F32}, bytes(5)), "AOTC-E133"),
]


@pytest.mark.parametrize("case", ATTACKS, ids=[case.label for case in ATTACKS])
def test_an_attack_is_refused(case: Refused, arms: Arms) -> None:
    assert outcome(case.attack, arms) == case.code


def test_every_code_of_the_formats_has_its_check_here() -> None:
    modules = (
        canonical_json,
        extended_tensors,
        in_toto,
        bundle_files,
        tar_archive,
        safetensors_reader,
    )
    of_signatures = {"AOTC-E119"}  # test_trust_attacks.py
    assert codes_in(*modules) - of_signatures == {case.code for case in ATTACKS} - {"AOTC-E303"}
