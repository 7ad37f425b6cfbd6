"""`.pt2` files that somebody made to break the reader: one coded error, and little memory."""

import io
import json
import struct
import time
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.capture.model_files import model_archive
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.frontends.pytorch import torch_plan, torch_results, torch_symbols, torch_weights
from aotc.frontends.pytorch.pytorch_frontend import PyTorch
from aotc.frontends.pytorch.torch_schema import Sym, SymExpr
from tests.refusals import error_of

FILES = Path(__file__).parent / "files"
GOOD = (FILES / "tied.pt2").read_bytes()
PROGRAM, CONFIG = "models/model.json", "data/weights/model_weights_config.json"

type Members = dict[str, bytes]


def read(data: bytes) -> Model:
    return PyTorch().read(ModelFile("bad.pt2", data, None, lambda _: b"", False))


def members(data: bytes = GOOD) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


def zipped(
    parts: Members, folder: str = "tied/", method: int = zipfile.ZIP_STORED, comment: bytes = b""
) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, data in parts.items():
            file.writestr(folder + name, data)
        file.comment = comment
    return made.getvalue()


def changed(name: str, change: Callable[[Any], object], source: str = "tied") -> bytes:
    """A file whose document of this name is changed."""
    parts = members((FILES / f"{source}.pt2").read_bytes())
    document = json.loads(parts[name])
    change(document)
    parts[name] = json.dumps(document).encode()
    return zipped(parts)


def graph(document: Any) -> Any:
    return document["graph_module"]["graph"]


def code(data: bytes) -> str:
    """Of the one finding of a refusal."""
    return error_of(CaptureError, read, data).code


def payload(document: Any) -> Any:
    return document["config"]["head.weight"]


def sizes(document: Any, new: list[int], strides: list[int] | None = None, offset: int = 0) -> None:
    meta = payload(document)["tensor_meta"]
    meta["sizes"] = [{"as_int": size} for size in new]
    meta["strides"] = [{"as_int": each} for each in strides or [1] * len(new)]
    meta["storage_offset"] = {"as_int": offset}


def added(name: str) -> bytes:
    """A file with one member more."""
    made = io.BytesIO(zipped(members()))
    with zipfile.ZipFile(made, "a") as file, warnings.catch_warnings(action="ignore"):
        file.writestr(name, b"little")
    return made.getvalue()


def patched(at: int, layout: str, value: int) -> bytes:
    """A file whose first entry of the directory says something else. at: bytes from its start."""
    data = bytearray(zipped(members()))
    (start,) = struct.unpack_from("<L", data, len(data) - 6)
    struct.pack_into(layout, data, start + at, value)
    return bytes(data)


def flipped_end(at: int) -> bytes:
    data = bytearray(zipped(members()))
    data[len(data) - END + at] ^= 1
    return bytes(data)


def entry_beyond_the_directory() -> bytes:
    data = bytearray(zipped(members()))
    here, count, size = struct.unpack_from("<HHL", data, len(data) - 14)
    struct.pack_into("<HHL", data, len(data) - 14, here + 1, count + 1, size + 4)
    return bytes(data[:-END]) + b"PK\x01\x02" + bytes(data[-END:])


def same_sizes_beyond_the_file() -> bytes:
    data = bytearray(patched(20, "<L", 2**30))
    (start,) = struct.unpack_from("<L", data, len(data) - 6)
    struct.pack_into("<L", data, start + 24, 2**30)
    return bytes(data)


END = 22
CUTS = (0, 3, 4, 10, 22, 100, len(GOOD) // 2, len(GOOD) - 100, len(GOOD) - 1)
NAMES = ("../evil", "a/../../evil", "/etc/evil", "a\\b", "\x1b[31m", "a//b", "a/./b", "..")
ENTRIES = (
    *((0, "<L", 0), (8, "<H", 1), (10, "<H", 8), (16, "<L", 1), (20, "<L", 2**31)),
    *((24, "<L", 2**31), (24, "<L", 2**32 - 1), (28, "<H", 2**16 - 1), (30, "<H", 2**16 - 1)),
    *((42, "<L", 2**31), (42, "<L", 5)),
)
BAD: dict[str, bytes] = {
    **{f"cut at {length}": GOOD[:length] for length in CUTS},
    **{f"begins with {data!r}": data for data in (b"\x80\x02}q\x00.", b"ML\xefR")},
    "an archive of nothing": b"PK\x05\x06" + bytes(18),
    "another format": zipped({**members(), "archive_format": b"pt3"}),
    "another order of bytes": zipped({**members(), "byteorder": b"big"}),
    **{f"a member {name!r}": zipped({**members(), name: b""}) for name in (*NAMES, "../other/x")},
    **{f"also {name}": added(name) for name in ("tied/byteorder", "other/byteorder")},
    "a comment": zipped(members(), comment=b"x"),
    **{f"an entry with {entry}": patched(*entry) for entry in ENTRIES},
    **{f"another number {at} behind the end": flipped_end(at) for at in (4, 6, 8, 10, 12, 16, 20)},
    "bytes behind the directory": zipped(members())[:-END] + b"hidden" + zipped(members())[-END:],
    "an entry beyond the directory": entry_beyond_the_directory(),
    "an end over the record of 64 bits": (
        b"PK\x03\x04-PK\x05\x06" + bytes(3) + b"PK\x06\x07" + bytes(11)
    ),
    "the same sizes beyond the file": same_sizes_beyond_the_file(),
    "another name beside its bytes": zipped(members()).replace(b"byteorder", b"Byteorder", 1),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_whole_archive_of_torch_is_refused(what: str) -> None:
    assert code(BAD[what]) == "AOTC-E843"


def test_every_flipped_byte_is_refused_or_changes_nothing() -> None:
    good = read(GOOD)
    for at in range(0, len(GOOD), 37):
        data = bytearray(GOOD)
        data[at] ^= 0x55
        try:
            model = read(bytes(data))
        except CaptureError as error:
            assert error.code == "AOTC-E843"
        else:
            for name, array in model.weights.items():
                assert np.array_equal(array, good.weights[name])


def test_compressed_members_are_refused_without_being_expanded() -> None:
    bomb = {**members(), "bomb": bytes(200 * 2**20)}
    data = zipped(bomb, method=zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    assert code(data) == "AOTC-E843"
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def nested(count: int, last: bytes) -> bytes:
    """An archive whose members each hold the bytes of all that follow."""
    body, entries = last, []
    for number in reversed(range(count)):
        name = b"it/%06d" % number
        numbers = 20, 0, 0, 0, 0, zlib.crc32(body), len(body), len(body), len(name), 0
        body = struct.pack("<4s5H3L2H", b"PK\3\4", *numbers) + name + body
        entries.append((numbers, name, len(body)))
    directory = b"".join(
        struct.pack("<4sH", b"PK\1\2", 20)
        + struct.pack("<5H3L5H2L", *numbers, 0, 0, 0, 0, len(body) - size)
        + name
        for numbers, name, size in entries
    )
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)
    return body + directory + end


def test_nested_members_are_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    data = nested(3, b"last")
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert len(file.namelist()) == 3
    assert model_archive.read_archive(nested(1, b"last")).members.keys() == {"it/000000"}
    monkeypatch.setattr(model_archive, "_require_intact", lambda *_: pytest.fail("read"))
    assert code(data) == "AOTC-E843"


@pytest.mark.parametrize(
    "change",
    [
        lambda c: payload(c).update(use_pickle=True),
        lambda c: payload(c).update(path_name="../../models/model.json"),
        lambda c: payload(c).update(path_name="weight_9"),
        lambda c: payload(c).update(tensor_meta=None),
        lambda c: payload(c)["tensor_meta"].update(dtype=99),
        lambda c: payload(c)["tensor_meta"].update(layout=1),
        lambda c: c["config"].pop("head.weight"),
        lambda c: c.update(config=[]),
        lambda c: sizes(c, [4, 10], [10, 1]),  # not those of the graph
        lambda c: sizes(c, [2**40, 2**20]),
        lambda c: sizes(c, [10, 4], [4, 1], 1),
        lambda c: sizes(c, [10, 4], [2**61, 1]),
        lambda c: sizes(c, [2**50], [0]),
        lambda c: sizes(c, [10, 4], [-4, 1]),
        lambda c: sizes(c, [10, -4], [4, 1]),
        lambda c: sizes(c, [10, 4], [4]),
        lambda c: sizes(c, [10, 4], [4, 1], -1),
        lambda c: sizes(c, [0, 2**61, 2**61]),
        lambda c: sizes(c, [1] * 65),
    ],
)
def test_a_weight_that_cannot_be_is_refused(change: Callable[[Any], object]) -> None:
    assert code(changed(CONFIG, change)) == "AOTC-E843"


def test_tensors_that_overlap_again_and_again_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_weights, "COPIES_MAX", 0)
    assert code(GOOD) == "AOTC-E843"


@pytest.mark.parametrize("version", [7, 9])
def test_another_version_of_the_schema_is_refused(version: int) -> None:
    def change(document: Any) -> None:
        document["schema_version"]["major"] = version
        document["graph_module"] = "of another form"

    assert code(changed(PROGRAM, change)) == "AOTC-E843"


def _cycle(document: Any) -> None:
    nodes = graph(document)["nodes"]
    nodes[0], nodes[-1] = nodes[-1], nodes[0]


def _twice(document: Any) -> None:
    graph(document)["nodes"].append(graph(document)["nodes"][0])


def renamed(new: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        text = json.dumps(document).replace('"linear"', json.dumps(new))
        document.clear()
        document.update(json.loads(text))

    return change


def _first_argument(kind: Any) -> Callable[[Any], object]:
    return lambda document: graph(document)["nodes"][0]["inputs"][0].update(arg=kind)


def _structure(value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        call = document["graph_module"]["module_call_graph"][0]["signature"]
        call["out_spec"] = json.dumps(value) if not isinstance(value, str) else value

    return change


OPENED = '{"type":"builtins.tuple","context":"","children_spec":['
LEAF = {"type": None, "context": None, "children_spec": []}


def _nested(depth: int) -> Any:
    spec: Any = LEAF
    for _ in range(depth):
        spec = {"type": "builtins.tuple", "context": "null", "children_spec": [spec]}
    return [1, spec]


def _keys(*names: str) -> Any:
    children = [
        LEAF,
        *({"type": "builtins.tuple", "context": "null", "children_spec": []},) * (len(names) - 1),
    ]
    return [1, {"type": "builtins.dict", "context": json.dumps(names), "children_spec": children}]


@pytest.mark.parametrize(
    "change",
    [
        _cycle,
        _twice,
        lambda d: graph(d)["nodes"][0]["inputs"][0]["arg"].update(as_int=3),
        _first_argument({"as_pickle": "x"}),
        _first_argument({"as_float": "__import__('os')"}),
        renamed("\x1b[31m"),
        renamed("x" * (torch_plan.NAMES_MAX + 1)),
        renamed(""),
        lambda d: graph(d)["nodes"][0].update(target="torch.ops.aten.\x07.default"),
        lambda d: graph(d).update(outputs=[{"as_tensor": {"name": "missing"}}]),
        lambda d: graph(d).update(outputs=[]),
        lambda d: graph(d)["inputs"].pop(),
        lambda d: graph(d).update(nodes={}),
        lambda d: d.pop("range_constraints"),
        lambda d: d["graph_module"].update(module_call_graph=[]),
        lambda d: graph(d)["tensor_values"].pop("ids"),
        _structure("[1"),
        _structure([1, {**LEAF, "children_spec": [LEAF]}]),
        _structure(_nested(torch_results.DEPTH_MAX + 1)),
        _structure("[1," + OPENED * 50_000),
        _structure(_keys("a", "a")),
        _structure(_keys("\x1b")),
        _structure([1, {**LEAF, "type": "builtins.tuple", "context": "null"}]),
    ],
)  # fmt: skip
def test_a_graph_that_cannot_be_is_refused(change: Callable[[Any], object]) -> None:
    assert code(changed(PROGRAM, change)) == "AOTC-E843"


def test_results_as_deep_as_allowed_are_built() -> None:
    model = read(changed(PROGRAM, _structure(_nested(torch_results.DEPTH_MAX))))
    made = jax.eval_shape(model.function, dict(model.weights), np.zeros((2, 5), np.int32))
    assert jax.tree.leaves(made)[0].shape == (2, 5, 10)


def test_huge_program_is_refused_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = changed(PROGRAM, lambda d: d.update(guards_code=[[]] * 2**21))
    monkeypatch.setattr(model_archive, "JSON_MARKS_MAX", 2**20)
    tracemalloc.start()
    assert code(data) == "AOTC-E843"
    assert tracemalloc.get_traced_memory()[1] < 4 * len(data)
    tracemalloc.stop()
    monkeypatch.setattr(model_archive, "JSON_BYTES_MAX", 100)
    assert code(GOOD) == "AOTC-E843"


def _writes(count: int) -> Callable[[Any], None]:
    """The result is written in place so many times."""

    def change(document: Any) -> None:
        found = graph(document)
        last = found["outputs"][0]["as_tensor"]["name"]
        meta = found["tensor_values"][last]
        for number in range(count):
            given, last = last, f"written_{number}"
            found["nodes"].append(
                {
                    "target": "torch.ops.aten.relu_.default",
                    "inputs": [{"name": "self", "arg": {"as_tensor": {"name": given}}}],
                    "outputs": [{"as_tensor": {"name": last}}],
                    "metadata": {},
                }
            )
            found["tensor_values"][last] = meta
        found["outputs"] = [{"as_tensor": {"name": last}}]
        (spec,) = document["graph_module"]["signature"]["output_specs"]
        spec["user_output"]["arg"]["as_tensor"]["name"] = last

    return change


def test_writes_in_place_are_followed_in_time_that_grows_with_their_number() -> None:
    """With the square of their number, as before, it took 50 seconds."""
    data = changed(PROGRAM, _writes(4000))
    began = time.process_time()
    read(data)
    assert time.process_time() - began < 15
    model = read(changed(PROGRAM, _writes(3)))
    made = jax.eval_shape(model.function, dict(model.weights), np.zeros((2, 5), np.int32))
    assert jax.tree.leaves(made)[0].shape == (2, 5, 10)


@pytest.mark.parametrize("limit", ["MEMBERS_MAX", "DIRECTORY_BYTES_MAX"])
def test_as_many_members_as_allowed_are_read(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, size, count = model_archive._directory(GOOD)
    most = count if limit == "MEMBERS_MAX" else size
    monkeypatch.setattr(model_archive, limit, most)
    assert read(GOOD).weights
    monkeypatch.setattr(model_archive, limit, most - 1)
    assert code(GOOD) == "AOTC-E843"


@pytest.mark.parametrize("name", [b'"head\\u001b[31m"', b'""'])
def test_a_weight_has_a_printable_name(name: bytes) -> None:
    parts = members()
    for document in (PROGRAM, CONFIG):
        parts[document] = parts[document].replace(b'"head.weight"', name)
    caught = error_of(CaptureError, read, zipped(parts))
    assert caught.findings[0].expected == "printable names of weights"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "Pow(" * 300 + "Integer(2)" + ", Integer(8))" * 300,
        "Pow(Integer(2), Integer(100000000))",
        "Add(" * 5000,
        "Integer(" + "9" * 3000 + ")",
        "Mul(Symbol('s1'), [])",
        "Mul(Integer('aaaa'), Integer(2))",
        "Mul(Integer([1, 2]), Integer(2))",
        "Integer(1.5)",
        "Integer(True)",
    ],
)
def test_an_expression_that_is_none_of_sizes_is_not_evaluated(text: str) -> None:
    assert torch_symbols.evaluate(Sym(as_expr=SymExpr(text)), {"s1": 7}) is None


def test_an_expression_of_more_terms_than_allowed_is_not_multiplied_out() -> None:
    names = [f"s{number}" for number in range(11)]
    sizes = dict(zip(names, jax.export.symbolic_shape(", ".join(names)), strict=True))

    def power(symbols_: list[str], exponent: int) -> Any:
        total = f"Add({', '.join(f"Symbol('{name}')" for name in symbols_)})"
        text = f"Pow({total}, Integer({exponent}))"
        return torch_symbols.evaluate(Sym(as_expr=SymExpr(text)), sizes)

    assert power(names[:3], 2) == (sizes["s0"] + sizes["s1"] + sizes["s2"]) ** 2
    assert power(names[:10], 3) is not None
    assert power(names, 3) is None
    assert power(names[:3], 8) is None
    nested = "Pow(" * 40 + "Add(Symbol('s1'), Integer(-1))" + ", Integer(8))" * 40
    assert torch_symbols.evaluate(Sym(as_expr=SymExpr(nested)), sizes) is None
    for exponent in (-1, 0):
        text = f"Pow({nested}, Integer({exponent}))"
        assert torch_symbols.evaluate(Sym(as_expr=SymExpr(text)), sizes) is None
    nested = "Mul(Add(Symbol('s1'), Symbol('s2')), " * 11 + "Integer(1)" + ")" * 11
    assert torch_symbols.evaluate(Sym(as_expr=SymExpr(nested)), sizes) is None


def test_a_tensor_subclass_is_refused_with_what_unwraps_it() -> None:
    def subclass(document: Any) -> None:
        node = graph(document)["nodes"][0]
        node["target"] = "torch.ops.export.access_subclass_inner_tensor.default"

    caught = error_of(CaptureError, read, changed(PROGRAM, subclass))
    assert caught.code == "AOTC-E844"
    assert "unwrap_tensor_subclass" in str(caught)
