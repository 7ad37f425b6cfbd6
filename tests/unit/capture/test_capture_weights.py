"""Weights sets: read from a file, made by the program, or a file held against the program."""

import ml_dtypes
import numpy as np
import pytest
from capturing import BOUND, Capture, key_path

from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.check.trial_records import read_arrays

INIT = 'init = "program:init"\n'
SOURCE = 'source = "params.safetensors"\n'
F = "\ndef f(params, x): return x, jax.tree.leaves(params)\n"


def file(**tensors: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> dict[str, bytes]:
    named = {name.replace("__", "/"): array for name, array in tensors.items()}
    return {"params.safetensors": write_tensors(named, where="test")}


ONES = np.ones(3, np.float32)
NAMELESS = write_tensors({"": ONES}, where="test")


def test_a_file_alone_becomes_nested_dicts_by_its_names(capture: Capture) -> None:
    source = "def f(params, x): return params['layer']['kernel'] + params['bias']"
    outcome = capture(source, BOUND + SOURCE, files=file(layer__kernel=ONES, bias=ONES))
    assert outcome.program.weights == {"params": "source"}
    assert outcome.f.bound == {"params": "params"}


def test_an_init_alone_makes_the_values(capture: Capture) -> None:
    source = "def init(): return [jnp.full(3, 7.0), (None, np.float32(2))]"
    outcome = capture(source + F, BOUND + INIT)
    assert outcome.program.weights == {"params": "init"}
    stored = read_arrays(outcome.scratch.weights("params")[0])
    assert {name: array.tolist() for name, array in stored.items()} == {
        "0": [7.0, 7.0, 7.0],
        "1/1": 2.0,
    }


def test_an_init_with_a_file_gives_the_structure_only(capture: Capture) -> None:
    source = """
        class Params(NamedTuple):
            kernel: object
        def init(): return Params(jnp.zeros(3))
        def f(params, x): return params.kernel + x[0]
    """
    outcome = capture(source, BOUND + INIT + SOURCE, files=file(kernel=ONES))
    assert outcome.program.weights == {"params": "source"}
    assert read_arrays(outcome.scratch.weights("params")[0])["kernel"].tolist() == [1.0, 1.0, 1.0]


def test_an_init_that_is_one_array_takes_the_one_of_a_file(capture: Capture) -> None:
    source = "def init(): return jnp.zeros(3)\ndef f(params, x): return params + x[0]"
    outcome = capture(source, BOUND + INIT + SOURCE, files=file(value=ONES))
    assert read_arrays(outcome.scratch.weights("params")[0])["value"].tolist() == [1.0, 1.0, 1.0]


def test_a_tensor_without_a_name_is_refused(capture: Capture) -> None:
    refusal = capture(F, BOUND + SOURCE, files={"params.safetensors": NAMELESS}).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E830", "weights.params.source")


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        ({"a": ONES}, "b: no such tensor; init has float32[3]"),
        ({"a": ONES, "b": ONES, "c": ONES}, "c: float32[3], which init does not have"),
        ({"a": ONES, "b": np.ones(4, np.float32)}, "b: float32[4]; init has float32[3]"),
        ({"a": ONES, "b": np.ones((3, 1), np.float32)}, "b: float32[3, 1]; init has float32[3]"),
        ({"a": ONES, "b": ONES.astype(ml_dtypes.bfloat16)}, "b: bfloat16[3]; init has float32[3]"),
        (
            {"b": np.ones(4), "c": ONES},
            "a: no such tensor; init has float32[3]\nb: float64[4]; init has float32[3]\n"
            "c: float32[3], which init does not have",
        ),
    ],
    ids=["missing", "extra", "size", "rank", "dtype", "several"],
)
def test_a_file_that_does_not_fit_the_init_is_refused_by_tensor(
    capture: Capture,
    tensors: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]],
    found: str,
) -> None:
    source = "def init(): return {'a': jnp.zeros(3), 'b': jnp.zeros(3)}" + F
    refusal = capture(source, BOUND + INIT + SOURCE, files=file(**tensors)).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E830", "weights.params.source")
    assert refusal.found == found


def test_names_as_torch_writes_them_are_told_what_they_should_be(capture: Capture) -> None:
    source = "def init(): return {'dense': {'kernel': jnp.zeros(3), 'bias': jnp.zeros(3)}}" + F
    files = {"params.safetensors": write_tensors({"dense.kernel": ONES}, where="test")}
    refusal = capture(source, BOUND + INIT + SOURCE, files=files).refusal
    assert refusal.code == "AOTC-E830"
    assert (
        "rename = { '\\.' = '/' }` with the weights: did you mean `dense/kernel`?" in refusal.hint
    )


@pytest.mark.parametrize(
    "body", ["x + params.w", "params(x)", "jax.tree.map(jnp.add, Params(x), params).w"]
)
def test_weights_in_another_structure_are_told_init(capture: Capture, body: str) -> None:
    source = (
        "from typing import NamedTuple\nimport jax\nclass Params(NamedTuple):\n    w: jax.Array\n"
        f"def f(params, x): return {body}"
    )
    refusal = capture(source, BOUND + SOURCE, files=file(w=ONES)).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E829", "f")
    assert 'beside `source`: init = "package.module:function"' in refusal.hint


def test_a_key_that_weights_lack_is_answered_with_the_names_they_have(capture: Capture) -> None:
    files = {"params.safetensors": write_tensors({"dense.kernel": ONES}, where="test")}
    source = "def f(params, x): return x + params['dense']['kernel']"
    refusal = capture(source, BOUND + SOURCE, files=files).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E829", "f")
    assert refusal.hint.startswith("params has the tensors dense.kernel;")
    assert "rename = { '\\.' = '/' }" in refusal.hint


@pytest.mark.parametrize(
    ("init", "code"),
    [
        ("return {'a': jnp.zeros(3), 'name': 'text'}", "AOTC-E830"),
        ("return {'a': jnp.zeros(3), 'layers': 3}", "AOTC-E830"),
        ("return {'a': jnp.zeros(3), 'act': jnp.sin}", "AOTC-E830"),
        ("return {'a/b': jnp.zeros(3), 'a': {'b': jnp.zeros(3)}}", "AOTC-E833"),
        ("return {'a': np.zeros(3)}", "AOTC-E828"),
        ("return [np.array(['text'])]", "AOTC-E832"),
        ("return [jax.random.key(0)]", "AOTC-E832"),
        ("return {'a': np.arange(3)}", "AOTC-E828"),
        ("raise ValueError('no data')", "AOTC-E829"),
        ("return jnp.zeros(3) @ jnp.zeros(4)", "AOTC-E829"),
    ],
)
def test_init_without_tree_of_arrays_is_refused(capture: Capture, init: str, code: str) -> None:
    refusal = capture(f"def init():\n    {init}\n{F}", BOUND + INIT).refusal
    assert refusal.code == code
    assert key_path(refusal).split()[0] == "weights.params.init"


def test_names_that_are_no_tree_are_refused(capture: Capture) -> None:
    refusal = capture(F, BOUND + SOURCE, files=file(a=ONES, a__b=ONES)).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E830", "weights.params.source")


def test_64_bit_tensors_are_refused_unless_enabled(capture: Capture) -> None:
    refusal = capture(F, BOUND + SOURCE, files=file(a=np.ones(3))).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E828", "weights.params.source")
    assert "float64" in refusal.found


def twice(size: int) -> bytes:
    """A damaged file whose header has so many bytes: 128 is how a pickle begins, 0x4B50 a zip."""
    entry = b'"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    return size.to_bytes(8, "little") + (b"{%b,%b}" % (entry, entry)).ljust(size)


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (b"", "not a safetensors file, or a damaged one"),
        (b"junk and more junk", "not a safetensors file, or a damaged one"),
        (b"\x80\x04pickle", "not a safetensors file but a pickle"),
        (b"PK\x05\x06" + bytes(18), "not a safetensors file but an empty zip archive"),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "not a safetensors file but the pointer that git-lfs leaves in place of a file",
        ),
        (write_tensors({"a": ONES}, where="test")[:-1], "damaged: 11 bytes of data, not 12 bytes"),
        (twice(128), "damaged: a key stands twice in an object"),
        (twice(0x4B50), "damaged: a key stands twice in an object"),
    ],
)
def test_invalid_safetensors_are_refused(capture: Capture, start: bytes, found: str) -> None:
    refusal = capture(F, BOUND + SOURCE, files={"params.safetensors": start}).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E830", "weights.params.source")
    assert refusal.found == f"params.safetensors: {found}"
