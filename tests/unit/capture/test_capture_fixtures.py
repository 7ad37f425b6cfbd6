"""Fixture inputs: recorded, random from a seed, or made by a `like` function."""

import io
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from capturing import BATCHED, ONE_INPUT, Capture, Outcome, key_path, npz

from aotc.check.trial_records import read_arrays

FIXTURES = "\n[entry_points.f.fixtures]\n"
IDENTITY = "def f(x): return x + 1"
INTEGERS = BATCHED.replace("float32", "int32")


def inputs(outcome: Outcome, profile: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype]]:
    assert outcome.exit_code == 0, outcome.findings
    return read_arrays(outcome.inputs(profile))


def test_random_inputs_depend_on_the_seed_and_nothing_else(capture: Capture) -> None:
    first = inputs(capture(IDENTITY, BATCHED + FIXTURES + "seed = 1"), 1)["x"]
    generator = np.random.default_rng([1, 0x8CDC1683])  # zlib.crc32(b"x")
    assert first.tolist() == generator.standard_normal((8, 4)).astype(np.float32).tolist()


def test_recorded_inputs_are_cut_and_repeated_to_each_profile(capture: Capture) -> None:
    recorded = np.arange(12, dtype=np.float32).reshape(3, 4)
    outcome = capture(
        IDENTITY, BATCHED + FIXTURES + 'file = "x.npz"', files={"x.npz": npz(x=recorded)}
    )
    assert inputs(outcome, 0)["x"].tolist() == recorded[:1].tolist()
    assert inputs(outcome, 1)["x"].tolist() == recorded[[0, 1, 2, 0, 1, 2, 0, 1]].tolist()


def test_random_integers_keep_to_their_range_both_ends_included(capture: Capture) -> None:
    outcome = capture(IDENTITY, INTEGERS + FIXTURES + "ranges = { x = [3, 5] }")
    assert set(inputs(outcome, 1)["x"].reshape(-1).tolist()) == {3, 4, 5}


def test_a_like_input_has_the_values_that_its_function_returns(capture: Capture) -> None:
    outcome = capture(
        "def start(size): return {'a': jnp.full(size, 5.0)}\ndef f(x): return x['a']",
        """
        [entry_points.f]
        function = "program:f"
        inputs.x = { like = "program:start", arguments = { size = 3 } }
        """,
    )
    assert inputs(outcome, 0)["x/a"].tolist() == [5.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        ({"y": np.zeros((3, 4), np.float32)}, "y"),
        ({"x": np.zeros((3, 4), np.float32), "y": np.zeros(3)}, "y"),
        ({"x": np.zeros((3, 4))}, "float64[3, 4]"),
        ({"x": np.zeros((3, 5), np.float32)}, "float32[3, 5]"),
        ({"x": np.zeros(4, np.float32)}, "float32[4]"),
        ({"x": np.zeros((0, 4), np.float32)}, "float32[0, 4]"),
        ({"x": np.array([{}])}, "allow_pickle"),
    ],
    ids=["missing", "extra", "dtype", "fixed axis", "rank", "empty", "objects"],
)
def test_unfit_recorded_inputs(capture: Capture, arrays: dict[str, object], found: str) -> None:
    manifest = BATCHED + FIXTURES + 'file = "x.npz"'
    refusal = capture(IDENTITY, manifest, files={"x.npz": npz(**arrays)}).refusal
    assert refusal.code == "AOTC-E831"
    assert key_path(refusal).startswith("entry_points.f.fixtures.file")
    assert found in refusal.found


RECORDED = INTEGERS + FIXTURES + 'file = "x.npz"'
EVALUATED = (
    RECORDED
    + """
[entry_points.f.evaluation]
data = "data.npz"
metric = "top1"
"""
)


def test_recorded_64_bit_integers_that_32_bits_hold_are_taken(capture: Capture) -> None:
    x = np.full((3, 4), 2**31 - 1, "int64")
    files = {"x.npz": npz(x=x), "data.npz": npz(x=x, target=np.zeros(3, int))}
    taken = inputs(capture(IDENTITY, EVALUATED, files=files), 0)["x"]
    assert (taken.dtype.name, taken.min()) == ("int32", 2**31 - 1)


@pytest.mark.parametrize("code", ["AOTC-E831", "AOTC-E847"])
@pytest.mark.parametrize(("dtype", "is_narrowed"), [("int64", True), ("int16", False)])
def test_hint_for_a_64_bit_recording_names_enable_x64(
    capture: Capture, dtype: str, is_narrowed: bool, code: str
) -> None:
    far = np.full((3, 4), np.iinfo(dtype).max, dtype)
    data = npz(x=far, target=np.zeros(3, int))
    files = {"x.npz": npz(x=far if code == "AOTC-E831" else far.astype("i4")), "data.npz": data}
    manifest = RECORDED if code == "AOTC-E831" else EVALUATED
    refusal = capture(IDENTITY, manifest, files=files).refusal
    assert (refusal.code, refusal.found) == (code, f"{dtype}[3, 4]")
    narrowed = (
        "a value does not fit into int32: without `enable_x64 = true` a model's int64 is int32"
    )
    assert (refusal.hint == narrowed) is is_narrowed


def test_a_mask_that_no_file_records_is_told_to_be_passed(capture: Capture) -> None:
    manifest = BATCHED.replace("float32", "bool") + FIXTURES + 'file = "x.npz"'
    refusal = capture(IDENTITY, manifest, files={"x.npz": npz(y=np.zeros(3))}).refusal
    assert '`out_of_profile.batch = { policy = "pad", mask = "x" }`' in refusal.hint


def test_random_integers_need_a_range(capture: Capture) -> None:
    refusal = capture(IDENTITY, INTEGERS).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E831", "entry_points.f.fixtures.ranges")


def test_a_range_beyond_the_dtype_is_refused(capture: Capture) -> None:
    manifest = INTEGERS.replace("int32", "uint8") + FIXTURES + "ranges = { x = [0, 256] }"
    refusal = capture(IDENTITY, manifest).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E831", "entry_points.f.fixtures.ranges.x")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return {'a': 'text'}", "AOTC-E825"),
        ("raise ValueError('no')", "AOTC-E829"),
        ("return jnp.zeros(3, 'int2')", "AOTC-E832"),
    ],
)
def test_like_function_without_arrays_is_refused(capture: Capture, body: str, code: str) -> None:
    manifest = '[entry_points.f]\nfunction = "program:f"\ninputs.x = { like = "program:start" }'
    source = f"def start():\n    {body}\ndef f(x): return 1"
    refusal = capture(source, manifest).refusal
    assert refusal.code == code, refusal
    assert key_path(refusal).startswith("entry_points.f")


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(4, np.float32))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "manifest",
    [
        ONE_INPUT.replace("[4]", "[4000000000000]"),
        ONE_INPUT.replace("float32", "float64") + FIXTURES + "ranges = { x = [-1.7e308, 1.7e308] }",
    ],
    ids=["more than memory", "more than a float"],
)
def test_what_cannot_be_drawn_is_refused(manifest: str, capture: Capture) -> None:
    outcome = capture(IDENTITY, manifest, header="enable_x64 = true\n")
    assert [finding.code for finding in outcome.findings] == ["AOTC-E831"]


def test_integers_of_a_function_need_a_range_where_calls_are_padded(capture: Capture) -> None:
    source = "import jax.numpy as jnp\ndef f(x): return x\ndef start(n): return jnp.zeros(n, int)"
    manifest = """
        [dimensions.n]
        range = [1, 4]
        profiles = [4]
        [entry_points.f]
        function = "program:f"
        inputs.x = { like = "program:start", arguments = { n = "n" } }
        out_of_profile.n = "pad"
    """
    refusal = capture(source, manifest).refusal
    assert (refusal.title, refusal.found) == ("range is missing for trials", "x int32")


def bomb(size: int) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.zeros(size, np.uint8))
    return buffer.getvalue()


def untrue() -> bytes:
    """An array whose header says that it is larger than memory."""
    buffer, header = io.BytesIO(), io.BytesIO()
    stated = {"descr": "|u1", "fortran_order": False, "shape": (2**60,)}
    np.lib.format.write_array_header_1_0(header, stated)
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    return buffer.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "the start of a zip": lambda: b"PK",
    "torn zip": lambda: b"PK\x03\x04 and no further",
    "text": lambda: b"hello",
    "npy": npy,
    "a bomb": lambda: bomb(2**28),
    "an untrue header": untrue,
}


@pytest.mark.parametrize("what", FILES)
def test_bad_or_expanding_fixture_file_is_refused_early(what: str, capture: Capture) -> None:
    data = FILES[what]()
    assert len(data) < 2**20
    files = {"x.npz": data}
    refusal = capture(IDENTITY, BATCHED + FIXTURES + 'file = "x.npz"', files=files).refusal
    assert refusal.code == "AOTC-E831"
    if what == "text":
        assert refusal.found == "x.npz: not an .npz file"


def test_a_compressed_fixture_file_of_few_bytes_is_taken(capture: Capture) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.zeros((3, 4), np.float32))
    files = {"x.npz": buffer.getvalue()}
    outcome = capture(IDENTITY, BATCHED + FIXTURES + 'file = "x.npz"', files=files)
    assert not inputs(outcome, 0)["x"].any()
