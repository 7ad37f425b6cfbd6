"""Entry points that are model files: what the manifest says of them, and what the file has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capturing import Capture, key_path, npz
from jax import export

from aotc.capture.model_files.frontend_registry import export_hint
from aotc.check.trial_records import read_arrays
from aotc_runtime.formats.safetensors_reader import read_tensors

W = np.arange(12, dtype=np.float32).reshape(4, 3)


def exported(function: Any, *shapes: tuple[tuple[Any, ...], Any]) -> bytes:
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return bytes(export.export(jax.jit(function))(*arrays).serialize())


def product(x: Any) -> Any:
    return {"y": x @ W}


def tree(n: Any) -> bytes:
    """A function of a dict and an array."""
    state = {
        "last": jax.ShapeDtypeStruct((n, 4), jnp.float32),
        "w": jax.ShapeDtypeStruct((4,), "f4"),
    }
    given = jax.ShapeDtypeStruct((n, 4), jnp.float32)
    function = jax.jit(lambda state, x: {"y": x * state["w"] + state["last"]})
    return bytes(export.export(function)(state, given).serialize())


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    (n,) = export.symbolic_shape("n")
    wide = export.symbolic_shape("a, b", constraints=["a >= 2", "a <= 16"])
    return {
        "any.jax": exported(product, ((n, 4), jnp.float32)),
        "two.jax": exported(lambda x, y: x @ y, ((wide[0], 4), jnp.float32), ((4, 3), jnp.float32)),
        "tree.jax": tree(n),
        "fixed.jax": exported(product, ((2, 4), jnp.float32)),
        "whole.jax": exported(lambda i, keep: i * keep, ((3,), jnp.int32), ((3,), jnp.bool_)),
    }


MANIFEST = """
[dimensions.n]
range = [1, 8]
profiles = [2, 8]

[entry_points.f]
source = "any.jax"
inputs.arg0 = { shape = ["n", 4] }
"""


def test_file_is_an_entry_point_with_weights(capture: Capture, files: dict[str, bytes]) -> None:
    outcome = capture("", MANIFEST, files=files)
    captured = outcome.f
    assert captured.function == "any.jax"
    (given,) = captured.inputs
    assert (given.path, given.dtype.value, given.shape) == ("arg0", "float32", ("n", 4))
    assert [(each.path, each.shape) for each in captured.outputs] == [("y", ("n", 3))]
    assert captured.bound == {"weights": "f"} and not captured.lifted
    assert captured.model is not None and "jax.export" in captured.model.producer
    (shard,) = outcome.scratch.weights("f")
    data = memoryview(shard.read_bytes())
    (tensor,) = read_tensors(data, where="weights").values()
    assert bytes(data[tensor.start : tensor.end]) == W.tobytes()
    assert outcome.program.files.keys() == {"any.jax"}


def test_file_sizes_and_dtypes_are_defaults(capture: Capture, files: dict[str, bytes]) -> None:
    captured = capture("", '[entry_points.f]\nsource = "fixed.jax"\n', files=files).f
    assert [(each.path, each.shape) for each in captured.inputs] == [("arg0", (2, 4))]


WHOLE = '[entry_points.f]\nsource = "whole.jax"\nfixtures.ranges = '


def test_integer_ranges_need_no_inputs(capture: Capture, files: dict[str, bytes]) -> None:
    captured = capture("", WHOLE + "{ arg0 = [5, 39] }", files=files).f
    assert [(each.path, each.dtype.value) for each in captured.inputs] == [
        ("arg0", "int32"),
        ("arg1", "bool"),
    ]


@pytest.mark.parametrize(
    ("ranges", "code", "key"),
    [
        ("{ arg = [0, 39] }", "AOTC-E806", "ranges.arg"),
        ("{ arg0 = [0, 39.5] }", "AOTC-E805", "ranges.arg0[1]"),
        ("{ arg0 = [0, 39], arg1 = [0, 1] }", "AOTC-E807", "ranges.arg1"),
    ],
)
def test_ranges_that_do_not_fit_the_inputs_of_a_file_are_refused(
    capture: Capture, files: dict[str, bytes], ranges: str, code: str, key: str
) -> None:
    refusal = capture("", WHOLE + ranges, files=files).refusal
    assert (refusal.code, refusal.where.endswith(f"fixtures.{key}")) == (code, True)


LIKE = """
[dimensions.n]
range = [1, 8]
profiles = [2, 8]

[entry_points.f]
source = "tree.jax"
inputs.arg0 = { like = "program:state", arguments = { n = "n" } }
inputs.arg1 = { shape = ["n", 4] }
"""
STATE = """
import jax.numpy as jnp

def state(n):
    return {"last": jnp.full((n, 4), 3.0), "w": jnp.arange(4.0)}
"""


def test_an_input_is_what_a_function_returns(capture: Capture, files: dict[str, bytes]) -> None:
    found = capture(STATE, LIKE, files=files).f
    assert [each.path for each in found.inputs] == ["arg0/last", "arg0/w", "arg1"]
    assert {str(each.shape[0]) for each in found.inputs if each.path != "arg0/w"} == {"n"}


@pytest.mark.parametrize(
    ("of_file", "other"),
    [
        ("(n, 4)", "(n, 5)"),
        ('"w"', '"v"'),
        ('"last"', '"more": jnp.zeros(1), "last"'),
        ("4.0)", '4, dtype="int32")'),
    ],
)
def test_unfit_values(of_file: str, other: str, capture: Capture, files: dict[str, bytes]) -> None:
    assert capture(STATE.replace(of_file, other), LIKE, files=files).refusal.code == "AOTC-E846"


def test_entry_points_may_share_a_weights_set(capture: Capture, files: dict[str, bytes]) -> None:
    more = '[entry_points.g]\nsource = "fixed.jax"\nweights = "both"\n'
    manifest = MANIFEST.replace("inputs.arg0", 'weights = "both"\ninputs.arg0') + more
    outcome = capture("", manifest, files=files)
    assert list(outcome.program.weights) == ["both"]
    (shard,) = outcome.scratch.weights("both")
    assert len(read_tensors(memoryview(shard.read_bytes()), where="weights")) == 1


def changed(old: str, new: str) -> str:
    assert old in MANIFEST
    return MANIFEST.replace(old, new)


@pytest.mark.parametrize(
    ("path", "instead"),
    [("state.pt", "torch.export.save"), ("w.npz", "weights"), ("m.dat", "model-files.md")],
)
def test_a_file_of_another_kind_is_answered_with_what_to_use(path: str, instead: str) -> None:
    assert instead in export_hint(path)


def misfits() -> Iterator[tuple[str, str, str]]:
    yield changed("inputs.arg0", "inputs.x"), "AOTC-E846", "inputs.x"
    misspelt = changed("inputs.arg0", "inputs.agr0") + "fixtures.ranges = { arg0 = [0, 1] }"
    yield misspelt, "AOTC-E846", "inputs.agr0"
    yield changed('["n", 4]', '["n", 5]'), "AOTC-E846", "inputs.arg0"
    yield changed('["n", 4]', '["n"]'), "AOTC-E846", "inputs.arg0"
    yield changed("4] }", '4], dtype = "int32" }'), "AOTC-E846", "inputs.arg0"
    yield changed("4] }", '4] }\nbind = { arg1 = "f" }'), "AOTC-E806", "bind.arg1"
    yield changed('"any.jax"', '"any.jax"\nsignature = "g"'), "AOTC-E845", "source"
    yield changed('"any.jax"', '"program.py"'), "AOTC-E843", "source"
    yield changed('"any.jax"', '"cut.jax"'), "AOTC-E843", "source"


@pytest.mark.parametrize(("manifest", "code", "key"), [*misfits()])
def test_what_the_manifest_says_and_the_file_does_not_have_is_refused_at_its_line(
    capture: Capture, files: dict[str, bytes], manifest: str, code: str, key: str
) -> None:
    cut = {"cut.jax": files["any.jax"][:100]}
    refusal = capture("", manifest, files={**files, **cut}).refusal
    assert refusal.code == code
    assert refusal.where.endswith(f"entry_points.f.{key}")


def test_unexported_profiles_are_refused(capture: Capture, files: dict[str, bytes]) -> None:
    two = '"two.jax"\ninputs.arg1 = { shape = [4, 3] }'
    manifest = changed('"any.jax"', two).replace("[2, 8]", "[1, 8]")
    refusal = capture("", manifest, files=files).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E846", "dimensions.n.profiles")
    assert refusal.found.startswith("f[n=1]")


SIZES = """
[dimensions]
a = { range = [4, 64], profiles = [8] }
b = { range = [2, 9], profiles = [3] }
c = { range = [3, 10], profiles = [3] }

[entry_points.f]
source = "sizes.pt2"
inputs.x = { shape = ["a", 2] }
inputs.y = { shape = ["b", 2] }
inputs.z = { shape = ["c", 2] }
"""


@pytest.mark.parametrize(
    ("old", "new", "key", "found", "expected"),
    [
        ("", "", "entry_points.f.profiles", "sizes.pt2: z [3, 2]", "z [b + 1, 2]"),
        ("[8]", "[10]", "entry_points.f.profiles", "sizes.pt2: x [10, 2]", "x [4*size_0, 2]"),
        (
            "c = { range = [3, 10], profiles = [3]",
            "c = { range = [3, 10], profiles = [5]",
            "entry_points.f.profiles",
            "sizes.pt2: z [5, 2]",
            "z [b + 1, 2]",
        ),
        (
            "[2, 9]",
            "[1, 9]",
            "dimensions.b.range",
            "1 to 9",
            "2 to 9, which the model file accepts",
        ),
    ],
)
def test_sizes_of_a_torch_file_are_told_in_the_words_of_the_manifest(
    capture: Capture, old: str, new: str, key: str, found: str, expected: str
) -> None:
    path = Path(__file__).parents[1] / "frontends/pytorch/files/related.pt2"
    manifest = SIZES.replace(old, new) if old else SIZES
    refusal = capture("", manifest, files={"sizes.pt2": path.read_bytes()}).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E846", key)
    assert (refusal.found, refusal.expected) == (found, expected)
    assert ("torch.export.Dim(min=1, max=9)" in refusal.hint) == (new == "[1, 9]")


FLAT = """
[entry_points.f]
source = "nested.pt2"
inputs.batch_image = { shape = [3, 4] }
inputs.batch_mask = { shape = [3] }
inputs.scale_0 = { shape = [1] }
inputs.past_0 = { shape = [4] }
"""


def test_nested_inputs_of_a_torch_file_may_be_flat(capture: Capture) -> None:
    path = Path(__file__).parents[1] / "frontends/pytorch/files/nested.pt2"
    captured = capture("", FLAT, files={path.name: path.read_bytes()}).f
    found = [each.path for each in captured.inputs]
    assert sorted(found) == ["batch_image", "batch_mask", "past_0", "scale_0"]


def test_framework_results_are_kept_by_profile(capture: Capture, files: dict[str, bytes]) -> None:
    x = np.ones((8, 4), np.float32)
    recorded = {"y[n=2]": (x[:2] @ W).astype(np.float64), "y[n=8]": x @ W}
    manifest = MANIFEST + 'fixtures = { file = "x.npz", expected = "y.npz" }\n'
    given = {**files, "x.npz": npz(arg0=x), "y.npz": npz(**recorded)}
    outcome = capture("", manifest, files=given)
    model = outcome.f.model
    assert model is not None and model.expected
    assert (model.expected.file, model.expected.rtol) == ("y.npz", "0.0001")
    assert outcome.program.files.keys() == {"any.jax", "x.npz", "y.npz"}
    for key in outcome.f.by_key:
        data = memoryview(outcome.scratch.expected(key).read_bytes())
        assert list(read_tensors(data, where="expected")) == ["y"]


ROWS = 'fixtures = { file = "x.npz", expected = "y.npz" }\n'


@pytest.mark.parametrize(("name", "rows"), [("y", 3), ("y[n=2]", 2), ("y[n=8]", 8)])
def test_rows_are_compared(capture: Capture, files: dict[str, bytes], name: str, rows: int) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    known = (x[np.arange(rows) % 3] @ W).astype(np.float64)
    given = {**files, "x.npz": npz(arg0=x), "y.npz": npz(**{name: known})}
    outcome = capture("", MANIFEST + ROWS, files=given)
    compared = []
    for key in outcome.f.by_key:
        place = outcome.scratch.expected(key)
        if place.exists():
            found = read_arrays(place)["y"]
            size = dict(key.sizes)["n"]
            np.testing.assert_allclose(found, x[np.arange(size) % 3] @ W)
            compared.append(size)
    # Two rows say nothing of eight, of which the third is another one.
    assert compared == ([2] if rows == 2 else [2, 8])
    assert outcome.f.model.expected.not_compared == (("f[n=8]",) if rows == 2 else ())


@pytest.mark.parametrize(
    ("names", "found", "said"),
    [
        (["y"], "y", "y[n=2]"),
        ([], "no arrays", "y, or y[n=2]"),
        (["y[n=4]"], "y[n=4]", "y, or y[n=2]"),
        (["Y"], "Y", "did you mean `y`?"),
        (["Y[n=2]"], "Y[n=2]", "did you mean `y`?"),
    ],
)
def test_incomparable_results_are_refused(
    capture: Capture, files: dict[str, bytes], names: list[str], found: str, said: str
) -> None:
    x = np.ones((3, 4), np.float32)
    given = {**files, "x.npz": npz(arg0=x), "y.npz": npz(**dict.fromkeys(names, x[:2] @ W))}
    refusal = capture("", MANIFEST + ROWS, files=given).refusal
    assert (refusal.code, refusal.found) == ("AOTC-E831", found)
    assert said in (refusal.expected, refusal.hint)


TORCH = Path(__file__).parents[1] / "frontends" / "pytorch" / "files"


def test_a_size_that_a_model_computes_with_is_told_with_its_layer(capture: Capture) -> None:
    sizes = "".join(f"[dimensions.{name}]\nrange = [2, 8]\nprofiles = [8]\n" for name in "nm")
    entry = changing('inputs.input.shape = ["n", "m"]\nout_of_profile.m = "pad"')
    files = {"counter.pt2": (TORCH / "mean.pt2").read_bytes()}
    assert capture("", sizes + entry, files=files).f.counted == {"m": "0 of the model file"}


def test_integers_that_wrap_are_refused_at_their_line(capture: Capture) -> None:
    hashed = MANIFEST.replace("any.jax", "hashed.pt2").replace("[1, 8]", "[2, 8]")
    hashed = hashed.replace(
        'arg0 = { shape = ["n", 4]', 'tokens = { dtype = "int32", shape = ["n", 2]'
    )
    hashed += "fixtures.ranges = { tokens = [0, 50000] }"
    files = {"hashed.pt2": (TORCH / "hashed.pt2").read_bytes()}
    refusal = capture("", hashed, files=files).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E844", "entry_points.f.source")
    product = "bucket = (tokens * 1000003 + 17) % 97: mul gives 0 to 50000150000"
    assert (
        refusal.found.startswith("hashed.pt2: models/torch_files.py:") and product in refusal.found
    )
    assert capture("", hashed.replace("50000", "2147"), files=files, name="small").f.model
    wide = hashed.replace("int32", "int64")
    assert capture("", wide, header="enable_x64 = true", files=files, name="wide").f.model


def changing(more: str, *, fixtures: str = "") -> str:
    return f'[entry_points.f]\nsource = "counter.pt2"\n{more}\n{fixtures}\n'


@pytest.fixture(scope="module")
def counter() -> dict[str, bytes]:
    return {f"{name}.pt2": (TORCH / f"{name}.pt2").read_bytes() for name in ("counter", "cache")}


def test_state_is_donated_with_own_values(capture: Capture, counter: dict[str, bytes]) -> None:
    outcome = capture("", changing('donate = ["state"]'), files=counter)
    captured = outcome.f
    assert [(each.path, each.shape) for each in captured.inputs] == [
        ("x", (2,)),
        ("state/count", (2,)),
    ]
    assert [(each.name, each.donated) for each in captured.parameters] == [
        ("x", False),
        ("state", True),
    ]
    assert {each.path for each in captured.outputs} == {"result", "state/count"}
    given = read_arrays(outcome.inputs(0))
    assert not given["state/count"].any() and given["x"].any()


def test_fixtures_may_begin_at_another_state(capture: Capture, counter: dict[str, bytes]) -> None:
    x, count = np.ones(2, np.float32), np.full(2, 7, np.float32)
    files = {**counter, "x.npz": npz(**{"x": x, "state/count": count})}
    more = 'donate = ["state"]\nfixtures = { file = "x.npz" }'
    given = read_arrays(capture("", changing(more), files=files).inputs(0))
    assert given["state/count"].tolist() == [7, 7]
    written = 'inputs.state = { count = { shape = [2], dtype = "float32" } }'
    more = f'donate = ["state"]\ninputs.x = {{ shape = [2] }}\n{written}'
    outcome = capture("", changing(more), files=counter, name="written")
    assert not read_arrays(outcome.inputs(0))["state/count"].any()


def test_file_function_gives_first_state(capture: Capture, counter: dict[str, bytes]) -> None:
    manifest = '[entry_points.f]\nsource = "cache.pt2"\nsignature = "initial_state"\n'
    outcome = capture("", manifest, files=counter)
    assert not outcome.f.inputs
    assert [each.path for each in outcome.f.outputs] == ["decay", "keys", "last", "steps"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("", "AOTC-E844"),
        ("donate = []", "AOTC-E844"),
        ('donate = ["state", "y"]', "AOTC-E846"),
        ('donate = ["weights", "state"]', "AOTC-E846"),
    ],
)
def test_state_is_given(capture: Capture, counter: dict[str, bytes], more: str, code: str) -> None:
    refusal = capture("", changing(more), files=counter).refusal
    assert refusal.code == code
    assert refusal.where.endswith("entry_points.f.donate")
    assert "count" in refusal.found or code == "AOTC-E846"


OTHERS = """
[weights.made]
init = "program:fails"

[entry_points.bad]
source = "cut.jax"

[entry_points.f]
source = "fixed.jax"

[entry_points.g]
function = "program:g"
bind = { params = "made" }
inputs.x = { shape = [3], dtype = "float32" }

[entry_points.h]
function = "program:h"
inputs.x = { shape = [3], dtype = "float32" }
"""
PROGRAM = """
    def fails(): raise ValueError("no weights today")
    def g(params, x): return x
    def h(x): return x @ 1
"""


def test_keep_going_names_all_bad_files(capture: Capture, files: dict[str, bytes]) -> None:
    cut = {"cut.jax": files["any.jax"][:100], "fixed.jax": files["fixed.jax"]}
    outcome = capture(PROGRAM, OTHERS, files=cut, keep_going=True)
    codes = [finding.code for finding in outcome.findings]
    assert codes == ["AOTC-E843", "AOTC-E829", "AOTC-E829"]
    assert "no weights today" in outcome.findings[1].found
    assert list(outcome.scratch.program.read().entry_points) == ["f"]


def test_keep_going_needs_a_model_file(capture: Capture, files: dict[str, bytes]) -> None:
    cut = {"cut.jax": files["any.jax"][:100]}
    manifest = '[entry_points.bad]\nsource = "cut.jax"\n'
    assert capture("", manifest, files=cut, keep_going=True).refusal.code == "AOTC-E843"
