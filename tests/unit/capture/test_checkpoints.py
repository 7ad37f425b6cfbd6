"""Weights in folders of sharded safetensors, in several files, renamed and cast."""

import json
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from capturing import BOUND, Capture

from aotc.base.errors import CaptureError
from aotc.bundle.write.safetensors_writer import shards, write_tensors
from aotc.capture.checkpoint_tensors import open_weights
from aotc.capture.weight_sets import read_shards
from aotc.config.build_manifest import SourceFile
from aotc.config.manifest_specs import WeightsSpec
from tests.refusals import error_of

type Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
type Files = dict[str, bytes]
WHERE = "aotc.toml:3 weights.params.source"
INDEX = "model.safetensors.index.json"
FIRST = {"a.weight": np.arange(3, dtype=np.float32), "a.bias": np.ones(2, np.float32)}
SECOND = {"b.weight": np.full(4, 7, np.float32), "b.count": np.array([2**30], np.int32)}


def checkpoint() -> Files:
    """A folder of two shards with its index."""
    names = {"first.safetensors": FIRST, "second.safetensors": SECOND}
    listed = {tensor: name for name, tensors in names.items() for tensor in tensors}
    made = {name: write_tensors(tensors, where="test") for name, tensors in names.items()}
    made[INDEX] = json.dumps({"metadata": {"total_size": 1}, "weight_map": listed}).encode()
    return made


def opened(folder: Path, files: Files, **spec: object) -> dict[str, bytes]:
    """The bytes of every tensor by name, as a build would store it."""
    for name, data in files.items():
        path = folder / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    spec = {"source": {"": SourceFile("model", folder / "model")}, **spec}
    _, tensors = open_weights(WeightsSpec(**spec), WHERE)  # type: ignore[arg-type]
    return {name: b"".join(tensor.chunks()) for name, tensor in tensors.items()}


def refused(folder: Path, files: Files, **spec: object) -> str:
    """Return what the one finding says."""
    (finding,) = error_of(CaptureError, opened, folder, files, **spec).findings
    assert (finding.code, finding.where) == ("AOTC-E830", WHERE)
    return finding.found


def bytes_of(*tensors: dict[str, Array]) -> dict[str, bytes]:
    return {name: array.tobytes() for each in tensors for name, array in each.items()}


def test_a_folder_is_what_its_index_lists(tmp_path: Path) -> None:
    assert opened(tmp_path, checkpoint()) == bytes_of(FIRST, SECOND)


def test_an_index_may_be_named_itself(tmp_path: Path) -> None:
    index = SourceFile(f"model/{INDEX}", tmp_path / "model" / INDEX)
    assert opened(tmp_path, checkpoint(), source={"": index}) == bytes_of(FIRST, SECOND)


def test_a_folder_may_hold_a_single_file(tmp_path: Path) -> None:
    files = {"model.safetensors": write_tensors(FIRST, where="test")}
    assert opened(tmp_path, files) == bytes_of(FIRST)


def test_every_file_that_was_read_is_told_with_its_index(tmp_path: Path) -> None:
    opened(tmp_path, checkpoint())
    spec = WeightsSpec(source={"": SourceFile("model", tmp_path / "model")})
    files, _ = open_weights(spec, WHERE)
    names = [f"model/{INDEX}", "model/first.safetensors", "model/second.safetensors"]
    assert [file.source.text for file in files] == names


def listing(change: Callable[[dict[str, str]], object]) -> Callable[[Files], None]:
    def changed(files: Files) -> None:
        index = json.loads(files[INDEX])
        change(index["weight_map"])
        files[INDEX] = json.dumps(index).encode()

    return changed


def twice(files: Files) -> None:
    files[INDEX] = files[INDEX].replace(
        b'"a.bias": ', b'"a.weight": "second.safetensors", "a.bias": '
    )


def cut(files: Files) -> None:
    files["second.safetensors"] = files["second.safetensors"][:-1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda files: files.pop("second.safetensors"), ["second.safetensors: No such file"]),
        (twice, ["a key stands twice"]),
        (cut, ["model/second.safetensors: damaged"]),
        (
            listing(lambda m: m.update({"b.more": "second.safetensors"})),
            ["second.safetensors: no b.more, which the index has there"],
        ),
        (
            listing(lambda m: m.pop("b.count")),
            ["second.safetensors: b.count, which the index does not have there"],
        ),
        (
            listing(lambda m: m.update({"a.bias": "second.safetensors"})),
            [
                "first.safetensors: a.bias, which the index does not",
                "second.safetensors: no a.bias, which the index has",
            ],
        ),
        (
            listing(lambda m: m.update({"x": "../model/first.safetensors"})),
            ["../model/first.safetensors: a file that is not in the directory of the index"],
        ),
        (lambda files: files.update({INDEX: b'{"weight_map": ['}), [INDEX]),
    ],
)
def test_index_mismatch(tmp_path: Path, change: Callable[[Files], None], told: list[str]) -> None:
    files = checkpoint()
    change(files)
    found = refused(tmp_path, files)
    assert all(each in found for each in told), found
    assert found.count("\n") == len(told) - 1


def test_names_are_replaced_in_order_before_prefixes(tmp_path: Path) -> None:
    source = {"one": SourceFile("model", tmp_path / "model")}
    rename = {r"^(\w)\.": r"layers.\1.", r"\.": "/", "weight$": "kernel"}
    names = opened(tmp_path, checkpoint(), source=source, rename=rename).keys()
    assert sorted(names) == [
        "one/layers/a/bias",
        "one/layers/a/kernel",
        "one/layers/b/count",
        "one/layers/b/kernel",
    ]


def test_two_tensors_that_get_one_name_are_refused(tmp_path: Path) -> None:
    found = refused(tmp_path, checkpoint(), rename={"^.": "x"})
    assert found == (
        "x.weight: a.weight in model/first.safetensors, and b.weight in model/second.safetensors"
    )


def test_only_floating_point_tensors_are_cast(tmp_path: Path) -> None:
    found = opened(tmp_path, checkpoint(), dtype="bfloat16")
    cast = {name: array.astype(ml_dtypes.bfloat16) for name, array in FIRST.items()}
    cast["b.weight"] = SECOND["b.weight"].astype(ml_dtypes.bfloat16)
    assert found == {**bytes_of(cast), "b.count": SECOND["b.count"].tobytes()}


def test_a_cast_set_is_stored_as_if_it_had_been_cast_before(tmp_path: Path) -> None:
    values = {"x": np.linspace(-3, 3, 1_000_001, dtype=np.float64), "n": np.zeros((0, 2))}
    (tmp_path / "x.safetensors").write_bytes(write_tensors(values, where="test"))
    source = {"": SourceFile("x.safetensors", tmp_path / "x.safetensors")}
    _, tensors = open_weights(WeightsSpec(source=source, dtype="float32"), WHERE)
    expected = {name: array.astype(np.float32) for name, array in values.items()}
    assert b"".join(*shards(tensors, where="test")) == write_tensors(expected, where="test")


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_no_number_stays_so(tmp_path: Path, special: float) -> None:
    files = {"model.safetensors": write_tensors({"x": np.array([special])}, where="test")}
    (data,) = opened(tmp_path, files, dtype="float16").values()
    np.testing.assert_array_equal(np.frombuffer(data, np.float16), [special])


def test_a_number_that_a_cast_would_make_infinite_is_refused(tmp_path: Path) -> None:
    files = {"model.safetensors": write_tensors({"x": np.array([1.0, 7e4])}, where="test")}
    assert refused(tmp_path, files, dtype="float16") == "70000.0 in x of model/model.safetensors"


def test_a_build_manifest_can_ask_for_all_of_it(capture: Capture) -> None:
    files = {f"model/{name}": data for name, data in checkpoint().items()}
    files["more.safetensors"] = write_tensors({"a.bias": np.ones(2, np.float32)}, where="test")
    rules = """
    source = { main = "model", more = "more.safetensors" }
    rename = { '\\.' = '/' }
    dtype = "bfloat16"
    """
    program = "def f(params, x): return x + params['main']['b']['weight'].astype(x.dtype)"
    outcome = capture(program, BOUND + rules, files=files)
    assert {*outcome.program.files} >= {f"model/{INDEX}", "model/first.safetensors"}
    stored = read_shards(outcome.scratch.weights("params"))
    assert sorted(stored) == [
        "main/a/bias",
        "main/a/weight",
        "main/b/count",
        "main/b/weight",
        "more/a/bias",
    ]
    assert stored["main/a/weight"].dtype == ml_dtypes.bfloat16
