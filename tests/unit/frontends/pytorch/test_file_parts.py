"""Parts of `.pt2` files that no whole file of torch's shows: ends of ranges, kinds of arguments."""

import io
import json
import struct
import zipfile
import zlib
from typing import Any

import jax
import msgspec
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.capture.model_files import model_archive
from aotc.capture.model_files.model_archive import Damaged
from aotc.frontends.pytorch import torch_plan, torch_results, torch_schema, torch_weights
from aotc.frontends.pytorch.torch_bindings import Bound
from aotc.frontends.pytorch.torch_plan import DTypeNumber, Ref, Step
from tests.refusals import error_of
from tests.unit.frontends.pytorch.test_hostile_files import (
    PROGRAM,
    changed,
    code,
    graph,
    members,
    read,
    renamed,
    zipped,
)

END = 22
ENTRY = 46


def test_a_file_that_begins_otherwise_is_refused() -> None:
    made = io.BytesIO(b"#!/bin/sh\n")
    made.seek(0, io.SEEK_END)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_STORED) as file:
        for name, data in members().items():
            file.writestr(f"tied/{name}", data)
    assert code(made.getvalue()) == "AOTC-E843"
    short = b"PK\x03\x04" + bytes(8) + b"PK\x05\x06\0"
    assert error_of(Damaged, model_archive.read_archive, short).found == "another kind of file"
    cut = zipped(members())[:-1]
    assert "truncated" in error_of(Damaged, model_archive.read_archive, cut).found


def test_entries_that_nobody_counts_are_refused() -> None:
    data = bytearray(zipped(members()))
    for at in (8, 10):
        (count,) = struct.unpack_from("<H", data, len(data) - END + at)
        struct.pack_into("<H", data, len(data) - END + at, count - 1)
    error_of(Damaged, model_archive.read_archive, bytes(data))


def of_64_bits(*, gap: int = 0, magic: bytes = b"PK\x06\x06", hidden: bytes = b"") -> bytes:
    """A file whose end has records of 64 bits. gap: how far the locator misses.  hidden: what
    neither of them says is there.
    """
    data = zipped(members())
    _, _, _, _, count, size, start, _ = struct.unpack("<4s4H2LH", data[-END:])
    at = len(data) - END
    record = struct.pack("<4sQ2H2L4Q", magic, 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at + gap, 1)
    return data[:-END] + record + hidden + locator + data[-END:]


def test_records_of_64_bits_are_read_where_they_are_said_to_be() -> None:
    read_again = model_archive.in_one_folder(model_archive.read_archive(of_64_bits()))
    assert read_again.members.keys() == members().keys()
    for bad in (
        of_64_bits(gap=1),
        of_64_bits(gap=-56),
        of_64_bits(magic=b"PK\x06\x00"),
        of_64_bits(hidden=b"more"),
    ):
        error_of(Damaged, model_archive.read_archive, bad)


def entries(data: bytes) -> list[int]:
    """Return where each entry of the directory begins."""
    _, size, count = model_archive._directory(data)
    at, found = len(data) - END - size, []
    for _ in range(count):
        found.append(at)
        at += ENTRY + sum(struct.unpack_from("<3H", data, at + 28))
    return found


def test_a_member_that_begins_with_other_bytes_is_refused() -> None:
    data = bytearray(zipped(members()))
    (offset,) = struct.unpack_from("<L", data, entries(bytes(data))[1] + 42)
    assert data[offset : offset + 4] == b"PK\x03\x04"
    data[offset + 3] ^= 1
    error_of(Damaged, model_archive.read_archive, bytes(data))


@pytest.mark.parametrize("what", ["a header beyond the file", "data of the directory"])
def test_a_member_that_reaches_too_far_is_refused(what: str) -> None:
    """The checksum of what is in the directory is right."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("tied/a", b"1")
        if what.startswith("a header"):
            info = zipfile.ZipInfo("tied/b")
            info.comment = b"PK\x03\x04"
            file.writestr(info, b"2")
    data = bytearray(made.getvalue())
    *_, at = entries(bytes(data))
    if what.startswith("a header"):
        struct.pack_into("<L", data, at + 42, len(data) - END - 4)
    else:
        struct.pack_into("<3L", data, at + 16, zlib.crc32(b"1PK\x01\x02"), 5, 5)
    error_of(Damaged, model_archive.read_archive, bytes(data))


def argument(**kind: Any) -> Any:
    return torch_plan._value(msgspec.convert(kind, torch_schema.Argument), 0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"as_int": 3}, 3),
        ({"as_ints": [1, 2]}, (1, 2)),
        ({"as_int_lists": [[1], [2, 3]]}, ((1,), (2, 3))),
        ({"as_bool": True}, True),
        ({"as_bools": [True, False]}, (True, False)),
        ({"as_string": "same"}, "same"),
        ({"as_none": True}, None),
        ({"as_device": {"type": "cpu"}}, None),
        ({"as_layout": 7}, None),
        ({"as_memory_format": 1}, None),
        ({"as_tensor": {"name": "x"}}, Ref("x")),
        ({"as_tensors": [{"name": "x"}, {"name": "y"}]}, (Ref("x"), Ref("y"))),
        ({"as_float": 0.5}, 0.5),
        ({"as_float": "-Infinity"}, float("-inf")),
        ({"as_floats": [0.5, "Infinity"]}, (0.5, float("inf"))),
        ({"as_sym_int": {"as_int": 4}}, 4),
        ({"as_sym_int": {"as_name": "s"}}, Ref("s")),
        ({"as_sym_bool": {"as_bool": False}}, False),
        ({"as_sym_float": {"as_float": "2.5"}}, 2.5),
        ({"as_sym_ints": [{"as_int": 4}, {"as_name": "s"}]}, (4, Ref("s"))),
        ({"as_sym_floats": [{"as_float": 1.5}]}, (1.5,)),
        ({"as_scalar_type": 7}, DTypeNumber(7)),
        (
            {"as_optional_tensors": [{"as_none": True}, {"as_tensor": {"name": "x"}}]},
            (None, Ref("x")),
        ),
        ({"as_optional_tensor": {"as_none": True}}, None),
        ({"as_optional_tensor": {"as_tensor": {"name": "x"}}}, Ref("x")),
        ({"as_complex": {"real": 1.0, "imag": "2"}}, 1 + 2j),
    ],
)
def test_every_kind_of_argument_is_read(kind: dict[str, Any], expected: Any) -> None:
    found = argument(**kind)
    assert found == expected and type(found) is type(expected)


def test_a_size_of_no_known_kind_is_refused() -> None:
    error_of(Damaged, argument, as_sym_int={})


def step(target: str, *inputs: Any, outputs: tuple[Any, ...] = ()) -> Step:
    return Step("s", target, tuple((f"a{i}", value) for i, value in enumerate(inputs)), outputs, "")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("aten.add_.Tensor", "aten.add.Tensor"),
        ("aten.__ior__.Tensor", "aten.__or__.Tensor"),
        ("aten.__or__.Tensor", None),
        ("aten.add.Tensor", None),
        ("other.add_.Tensor", None),
    ],
)
def test_an_operator_that_writes_is_known_by_its_name(target: str, expected: str | None) -> None:
    assert step(target).in_place == expected


def test_what_a_step_views_or_writes_is_its_first_tensor() -> None:
    assert step("t", Ref("x"), Ref("y")).first == "x"
    assert step("t", (Ref("x"), Ref("y"))).first == "x"
    for inputs in ((), (3,), ((),), ((3, Ref("x")),)):
        with pytest.raises(Damaged):
            _ = step("t", *inputs).first


def whole(steps: list[Step], inputs: list[str], outputs: list[str]) -> torch_plan.Plan:
    return torch_plan.Plan(tuple(map(Ref, inputs)), tuple(map(Ref, outputs)), tuple(steps), {})


INNER = whole([step("t", Ref("i"), outputs=(Ref("o"),))], ["i"], ["o"])


def called(target: str, *before: Any, given: tuple[str, ...] = ("x",)) -> torch_plan.Plan:
    caller = step(target, *before, INNER, *map(Ref, given), outputs=(Ref("y"),))
    return torch_plan._inline(whole([caller], ["x"], ["y"]))


def test_graphs_that_are_called_as_they_are_become_steps_of_the_caller() -> None:
    made = called("higher_order.wrap_with_set_grad_enabled", False)
    assert [(each.target, [*torch_plan.used_by(each)]) for each in made.steps] == [("t", ["x"])]
    assert made.outputs == made.steps[0].outputs
    off = called("higher_order.wrap_with_autocast", "cpu", None, False, None)
    assert [each.target for each in off.steps] == ["t"]
    for before in (("cpu", None, True, None), ("cpu", None), ()):
        kept = called("higher_order.wrap_with_autocast", *before)
        assert [each.target for each in kept.steps] == ["higher_order.wrap_with_autocast"]


def test_graphs_that_are_called_with_another_number_of_values_are_refused() -> None:
    target = "higher_order.wrap_with_set_grad_enabled"
    error_of(Damaged, called, target, False, given=("x", "x"))
    caller = step(target, False, INNER, Ref("x"), outputs=((Ref("y"), Ref("z")),))
    error_of(Damaged, torch_plan._inline, whole([caller], ["x"], ["y"]))


def nested(depth: int) -> torch_schema.Graph:
    inner = torch_schema.Graph((), (), (), {})
    for _ in range(depth):
        given = torch_schema.Argument(as_graph=torch_schema.GraphArgument("g", inner))
        node = torch_schema.Node(
            "higher_order.cond", (torch_schema.NamedArgument("g", given),), (), {}
        )
        inner = torch_schema.Graph((), (), (node,), {})
    return inner


def test_graphs_lie_within_each_other_as_deep_as_allowed() -> None:
    assert len(torch_plan.plan(nested(torch_plan.DEPTH_MAX)).steps) == 1
    error_of(Damaged, torch_plan.plan, nested(torch_plan.DEPTH_MAX + 1))


def test_an_operator_with_effects_is_refused_by_its_name() -> None:
    def ordered(document: Any) -> None:
        node = graph(document)["nodes"][-1]
        node["target"] = "torch.ops.higher_order.with_effects"
        argument = {"as_operator": "torch.ops.mine.told.default"}
        node["inputs"].insert(0, {"name": "", "arg": argument, "kind": 1})

    caught = error_of(CaptureError, read, changed(PROGRAM, ordered))
    assert caught.code == "AOTC-E844"
    assert "the effects of 'mine.told.default'" in caught.findings[0].found


@pytest.mark.parametrize("kind", ["operator", "custom_obj", "strings", "nested_tensors"])
def test_an_argument_of_a_kind_that_no_operator_takes_is_refused(kind: str) -> None:
    argument = {"name": "self", "arg": {f"as_{kind}": "x"}, "kind": 1}
    data = changed(PROGRAM, lambda d: graph(d)["nodes"][-1]["inputs"].append(argument))
    assert code(data) == "AOTC-E844"


@pytest.mark.parametrize(("more", "refused"), [(0, "AOTC-E844"), (1, "AOTC-E843")])
def test_names_of_operators_are_as_long_as_allowed(more: int, refused: str) -> None:
    target = "x" * (torch_plan.NAMES_MAX + more)
    data = changed(PROGRAM, lambda d: graph(d)["nodes"][-1].update(target=target))
    assert code(data) == refused


def test_names_of_values_are_as_long_as_allowed() -> None:
    assert read(changed(PROGRAM, renamed("x" * torch_plan.NAMES_MAX))).weights


@pytest.mark.parametrize(
    ("target", "outputs", "kept"),
    [
        ("aten.rand.default", True, False),
        ("aten.nowhere.default", True, False),
        ("aten._assert_async.default", False, False),
        ("_operator.add", True, False),
        ("aten.nowhere.default", False, True),
        ("aten.add.out", True, True),
        ("aten.add_.Tensor", True, True),
        ("library.update.default", True, True),
        ("library.update.default", False, True),
        ("higher_order.cond", True, True),
    ],
)
def test_effects_are_never_left_out(target: str, outputs: bool, kept: bool) -> None:
    unused = step(target, Ref("x"), outputs=(Ref("y"),) if outputs else ())
    assert torch_plan._prune(whole([unused], ["x"], ["x"])).steps == ((unused,) if kept else ())


LEAF = {"type": None, "context": None, "children_spec": []}


def structure(kind: str, context: Any, count: int, *fields: str) -> Any:
    spec = {"type": kind, "context": context, "children_spec": [LEAF] * count}
    named = {"my.Out": torch_schema.NamedTupleFields(fields)}
    return torch_results.read_structure(json.dumps([1, spec]), range(count), named)


def test_structures_are_built_as_torch_has_them() -> None:
    assert structure("builtins.list", "null", 2) == [0, 1]
    assert structure("builtins.tuple", "null", 2) == (0, 1)
    assert structure("builtins.list", '["a", "b"]', 2) == [0, 1], "a list has no names"
    assert structure("builtins.dict", '["a", "b"]', 2) == {"a": 0, "b": 1}
    assert structure("a.Class", '["a.Class", ["a", "b", "c"]]', 3) == {"a": 0, "b": 1, "c": 2}
    assert structure("a.Class", '["a"]', 2) == (0, 1)
    assert structure("a.Class", '"ab"', 2) == (0, 1)
    assert structure("a.Class", "7", 1) == (0,)
    out = structure("collections.namedtuple", "my.Out", 2, "scaled", "total")
    assert (type(out).__name__, out._asdict()) == ("Out", {"scaled": 0, "total": 1})
    for fields in (["a"], ["a", "a"], ["a", "x)"], ["_a", "b"], ["a", "if"]):
        error_of(Damaged, structure, "collections.namedtuple", "my.Out", 2, *fields)


@pytest.mark.parametrize("limit", ["JSON_BYTES_MAX", "JSON_MARKS_MAX"])
def test_documents_are_as_large_as_allowed(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"schema_version": {"major": 8, "minor": 0}, "torch_version": "2"}'
    most = (
        len(text) if limit == "JSON_BYTES_MAX" else sum(map(text.count, (b",", b":", b"[", b"{")))
    )
    monkeypatch.setattr(model_archive, limit, most)
    assert torch_schema.decode(text, torch_schema.Versions, "it").torch_version == "2"
    monkeypatch.setattr(model_archive, limit, most - 1)
    error_of(Damaged, torch_schema.decode, text, torch_schema.Versions, "it")


def tensors(
    *shapes: tuple[list[int], list[int]], data: bytes, dtype: int = 7
) -> list[np.ndarray[Any, Any]]:
    """Tensors of sizes and strides over the same bytes, float32 unless it is said otherwise."""
    held = model_archive.Archive({"w/b": memoryview(data)})
    places = {}
    for number, (sizes, strides) in enumerate(shapes):
        meta = {
            "dtype": dtype,
            "sizes": [{"as_int": size} for size in sizes],
            "strides": [{"as_int": stride} for stride in strides],
            "storage_offset": {"as_int": 0},
            "layout": 7,
        }
        stored = {"path_name": "b", "use_pickle": False, "tensor_meta": meta}
        places[str(number)] = ("w", msgspec.convert(stored, torch_schema.Payload))
    return [each.array for each in torch_weights.read_tensors(held, places, places).values()]


def test_tensors_are_as_many_as_their_bytes_hold() -> None:
    four = bytes(16)
    assert tensors(([1] * torch_weights.RANK_MAX, [1] * torch_weights.RANK_MAX), data=four)
    views = [([4], [1]), ([2, 2], [2, 1]), ([4, 1], [1, 1]), ([1, 4], [4, 1])]
    assert len(tensors(*views, data=four)) == torch_weights.COPIES_MAX
    for bad, data in (
        ([([8], [0])], four),
        ([([1], [1])], bytes(5)),
        ([*views, ([2, 1, 2], [2, 2, 1])], four),
    ):
        error_of(Damaged, tensors, *bad, data=data)


def test_booleans_are_0_and_1() -> None:
    assert tensors(([2], [1]), data=b"\0\1", dtype=12)[0].tolist() == [False, True]
    error_of(Damaged, tensors, ([2], [1]), data=b"\0\2", dtype=12)


def _passed(kind: str, value: object) -> Any:
    """Change the type of an input that callers pass."""

    def change(document: Any) -> None:
        (spec,) = document["graph_module"]["signature"]["input_specs"][3:]
        spec.clear()
        spec.update(value if kind == "spec" else {"user_input": {"arg": {kind: value}}})

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            _passed("spec", {"custom_obj": {"arg": {"name": "ids"}}}),
            "an input that is neither tensor nor number",
        ),
        (
            _passed("spec", {"token": {"arg": {"name": "ids"}}}),
            "an input that is neither tensor nor number",
        ),
        (_passed("as_sym_int", {"as_name": "ids"}), "an input that is a number and varies"),
        (lambda d: graph(d)["tensor_values"]["ids"].update(dtype=8), "the input 'ids' is float64"),
    ],
)
def test_what_callers_cannot_pass_to_a_program_is_refused_by_name(change: Any, said: str) -> None:
    caught = error_of(CaptureError, read, changed(PROGRAM, change))
    assert any(said in finding.found for finding in caught.findings)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ids", {"dtype": 99}),
        ("ids", {"sizes": [{"as_int": 1}] * 65}),
        ("p_head_weight", {"dtype": 6}),
    ],
)
def test_stated_tensor_is_possible_and_its_own(name: str, said: dict[str, Any]) -> None:
    with pytest.raises(CaptureError) as caught:
        read(changed(PROGRAM, lambda d: graph(d)["tensor_values"][name].update(said)))
    (finding,) = caught.value.findings
    assert finding.expected.partition(" ")[0] in ("sizes", "'head.weight'")


def test_an_input_has_as_many_dimensions_as_numpy_has() -> None:
    most = {"sizes": [{"as_int": 1}] * 64}
    model = read(changed(PROGRAM, lambda d: graph(d)["tensor_values"]["ids"].update(most)))
    assert model.inputs[0].shape == (1,) * 64


def test_operators_take_a_constant_of_the_graph_as_they_take_a_weight() -> None:
    """Numpy's arrays have no `at`, and other types of sums."""
    assert isinstance(Bound("table", constant=np.ones(2)).value({}, ()), jax.Array)
    assert Bound("unused").value({}, ()) is None
