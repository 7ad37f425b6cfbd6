"""`aotc init`: from a function to a manifest that traces, and what it refuses."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np


class Float32:  # as a jaxtyping annotation describes itself
    dtypes, dim_str = ["float32"], "batch 4"


def predict(params, image, *, temperature=1.0, mode="plain"):
    return jnp.tanh(image @ params["w"]) / temperature


def weights():
    return {"w": jnp.ones((4, 3))}


def example():
    return {"image": np.ones((8, 4)), "temperature": 2.0, "mode": "fast"}


def nested(tokens, batch):
    return tokens.sum(-1) + batch["x"][0][..., 0].astype(int)


def nested_example():
    return np.arange(12, dtype=np.int32).reshape(3, 4), {"x": [np.ones((3, 2), np.float32)]}


def draw(key):
    return jax.random.normal(key, (2,))


def draw_example():
    return jax.random.key(0)


def annotated(image: Float32, scale=1.0):
    return image * scale


def tuple_of(state):
    return state[0] + 1


def tuple_example():
    return ((np.ones(3, np.float32), np.ones(2, np.float32)),)


def make_state():
    return (jnp.ones(3), jnp.ones(2))


def sized_state(batch):
    return (jnp.ones((batch, 3)), jnp.ones(batch))


def step_of(state, x):
    return state[0].sum(1) + state[1] + x


def leave():
    raise SystemExit(0)


def branches(x):
    return x if x.sum() > 0 else -x


def too_many():
    return 1, 2, 3


def unknown_name():
    return {"imago": np.ones(3)}


def broken():
    raise ValueError("no data today")
"""


@pytest.fixture
def run(aotc: Run, tmp_path: Path) -> Run:
    (tmp_path / "program.py").write_text(PROGRAM)
    return aotc


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def test_a_function_described_by_options_becomes_a_manifest_that_traces(
    run: Run, tmp_path: Path
) -> None:
    done = run(
        "init",
        "program:predict",
        "--weights=params=program:weights",
        "--input=image=float32[batch,4]",
        "--static=mode='fast'",
        "--json",
    )
    assert (done.exit_code, done.document["profiles"]) == (
        0,
        ["predict[batch=1]", "predict[batch=8]", "predict[batch=64]"],
    )
    manifest = read(tmp_path / "program.toml")
    assert done.document["manifest"] == (tmp_path / "program.toml").read_text()
    assert "others need out_of_profile" in done.document["manifest"]
    entry_point = manifest["entry_points"]["predict"]
    assert manifest["weights"] == {"params": {"init": "program:weights"}}
    assert entry_point["bind"] == {"params": "params"}
    assert entry_point["static"] == {"mode": "fast"}
    assert entry_point["inputs"] == {"image": {"shape": ["batch", 4], "dtype": "float32"}}


def test_an_example_gives_dtypes_shapes_and_fixed_values(run: Run, tmp_path: Path) -> None:
    done = run(
        *("init", "program:predict", "--example=program:example"),
        *("--weights=params=program:weights", "--input=image=[batch,4]", "--dimension=batch=2:16"),
        "--json",
    )
    assert done.exit_code == 0, done.stdout
    manifest = read(tmp_path / "program.toml")
    assert manifest["dimensions"] == {"batch": {"range": [2, 16], "profiles": "powers_of_two"}}
    assert manifest["entry_points"]["predict"]["static"] == {"temperature": 2.0, "mode": "fast"}
    notes = "\n".join(done.document["notes"])
    assert "--input 'temperature=float32[]'" in notes


def test_doubles_of_an_example_are_narrowed_with_a_note(run: Run, tmp_path: Path) -> None:
    done = run(
        *("init", "program:predict", "--example=program:example", "--json"),
        "--weights=params=program:weights",
    )
    image = read(tmp_path / "program.toml")["entry_points"]["predict"]["inputs"]["image"]
    assert image == {"shape": [8, 4], "dtype": "float32"}
    assert "image is float64 in the example" in "\n".join(done.document["notes"])


def test_nested_examples_keep_their_structure_and_their_numbers(run: Run, tmp_path: Path) -> None:
    done = run(
        *("init", "program:nested", "--example=program:nested_example"),
        *("--input=tokens=[batch,seq]", "--input=batch/x/0=[batch,2]"),
    )
    assert done.exit_code == 0, done.stderr
    manifest = read(tmp_path / "program.toml")
    entry_point = manifest["entry_points"]["nested"]
    assert entry_point["inputs"]["batch"] == {"x": [{"shape": ["batch", 2], "dtype": "float32"}]}
    assert entry_point["fixtures"]["ranges"] == {"tokens": [0, 11]}
    assert manifest["dimensions"]["batch"]["profiles"] == [1, 3, 8, 64]
    assert "nested traces at 16 profiles" in done.stdout


def test_random_keys_annotations_and_structures_of_functions_are_inputs(
    run: Run, tmp_path: Path
) -> None:
    assert run("init", "program:draw", "--example=program:draw_example").exit_code == 0
    inputs = read(tmp_path / "program.toml")["entry_points"]["draw"]["inputs"]
    assert inputs == {"key": {"shape": [], "dtype": "key<fry>"}}
    assert run("init", "program:annotated", "-o", "a.toml").exit_code == 0
    inputs = read(tmp_path / "a.toml")["entry_points"]["annotated"]["inputs"]
    assert inputs == {"image": {"shape": ["batch", 4], "dtype": "float32"}}
    like = ("--like=state=program:make_state", "-o", "t.toml", "--entry-point=step")
    assert run("init", "program:tuple_of", *like).exit_code == 0
    inputs = read(tmp_path / "t.toml")["entry_points"]["step"]["inputs"]
    assert inputs == {"state": {"like": "program:make_state"}}
    sized = ("--like=state=program:sized_state", "--input=x=float32[batch]", "-o", "s.toml")
    assert run("init", "program:step_of", *sized).exit_code == 0
    inputs = read(tmp_path / "s.toml")["entry_points"]["step_of"]["inputs"]
    assert inputs["state"] == {"like": "program:sized_state", "arguments": {"batch": "batch"}}
    none = ("--like=state=program:sized_state", "--input=x=float32[8]", "-o", "n.toml")
    done = run("init", "program:step_of", *none)
    assert done.codes == ["AOTC-E829"] and "arguments = { batch = … }" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["program"], "AOTC-E080", "a function as package.module:function"),
        (["program.predict"], "AOTC-E080", "did you mean program:predict?"),
        (["program:predict", "--input=image=flot32[3]"], "AOTC-E080", "did you mean float32?"),
        (["program:predict", "--input=image"], "AOTC-E080", "image=float32[batch,64]"),
        (["program:predict", "--static=mode=fast"], "AOTC-E080", "in quotes"),
        (["program:predict", "--weights=params=x"], "AOTC-E080", "FILE.safetensors"),
        (["program:predict", "--weights=params=x.npz"], "AOTC-E080", "read it in a function"),
        (["program:predict", "--like=params=x"], "AOTC-E080", "package.module:function"),
        (["program:predict", "--dimension=b=1:8"], "AOTC-E080", "name an axis in --input"),
        (
            ["program:predict", "--input=image=f32[b]", "--dimension=b=8:1"],
            "AOTC-E080",
            "LOWEST:HIGHEST",
        ),
        (
            ["program:predict", "--input=image=f32[3]", "--static=image=1"],
            "AOTC-E080",
            "one option for image",
        ),
        (
            ["program:predict", "--input=image=f32[3]", "--input=image=f32[4]"],
            "AOTC-E080",
            "each name once",
        ),
        (["program:predict"], "AOTC-E081", "parameter image"),
        (["program:predict", "--example=program:broken"], "AOTC-E082", "no data today"),
        (["program:predict", "--example=program:too_many"], "AOTC-E082", "3 values"),
        (["program:predict", "--example=program:unknown_name"], "AOTC-E082", "imago"),
        (["program:tuple_of", "--example=program:tuple_example"], "AOTC-E082", "--like state="),
        (
            ["program:annotated", "--input=imgae=f32[3]"],
            "AOTC-E083",
            "did you mean image?",
        ),
        (
            ["program:nested", "--example=program:nested_example", "--input=tokens=[a]"],
            "AOTC-E083",
            "axes that fit the example's shape [3, 4]",
        ),
        (
            ["program:nested", "--example=program:nested_example", "--input=tokens=[a,a]"],
            "AOTC-E083",
            "a to be 3",
        ),
        (
            ["program:nested", "--example=program:nested_example", "--input=batch/y=[a]"],
            "AOTC-E083",
            "no such array",
        ),
        (["program:annotated", "--input=image=[a]"], "AOTC-E083", "a dtype"),
    ],
)
def test_what_cannot_be_described_is_refused_and_nothing_is_written(
    run: Run, tmp_path: Path, arguments: list[str], code: str, says: str
) -> None:
    done = run("init", *arguments)
    assert (done.exit_code, code in done.codes) == (2, True), done.stderr
    assert says in done.stderr
    assert not list(tmp_path.glob("*.toml"))


def test_an_existing_file_is_never_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "program.toml").write_text("mine")
    done = run("init", "program:annotated")
    assert (done.exit_code, done.codes) == (2, ["AOTC-E084"])
    assert (tmp_path / "program.toml").read_text() == "mine"


def test_a_program_that_does_not_trace_leaves_a_manifest_to_correct(
    run: Run, tmp_path: Path
) -> None:
    done = run("init", "program:branches", "--input=x=f32[4]", "--json")
    assert (done.exit_code, done.document["findings"][0]["code"]) == (3, "AOTC-E826")
    assert done.document["manifest"] == (tmp_path / "program.toml").read_text()


def test_unknown_functions_and_targets_are_refused_before_anything_is_written(
    run: Run, tmp_path: Path
) -> None:
    assert run("init", "program:nope").codes == ["AOTC-E820"]
    assert run("init", "program:annotated", "--target=cpu-x86-64-v9").codes == ["AOTC-E811"]
    assert not list(tmp_path.glob("*.toml"))


@pytest.mark.parametrize("name", ["a.b", 'we ird"', "größe"])
def test_names_that_toml_wants_quoted_are_and_the_manifests_own_rules_refuse_them(
    run: Run, tmp_path: Path, name: str
) -> None:
    done = run("init", "program:annotated", "--input=image=f32[4]", f"--entry-point={name}")
    assert (done.exit_code, done.codes) == (3, ["AOTC-E805"])
    written = tomllib.loads((tmp_path / "program.toml").read_text())
    assert list(written["entry_points"]) == [name]


def test_an_example_that_exits_is_one_that_fails(run: Run) -> None:
    assert run("init", "program:annotated", "--example=program:leave").codes == ["AOTC-E082"]


CALLABLES = """
import functools

import jax
import jax.numpy as jnp


def plain(x, /, y, n=2, *, scale=1.0):
    return x * y * scale * n


def any_more(x, *rest, y, **more):
    return x + y


def spread(*xs):
    return sum(xs)


def by_name(**xs):
    return xs["x"]


def nothing():
    return jnp.ones(4)


def yields(x):
    yield x


async def later(x):
    return x


class Model:
    def __init__(self, w=2.0):
        self.w = w

    def __call__(self, x):
        return x * self.w

    def predict(self, x):
        return x * self.w

    @classmethod
    def made(cls, x):
        return x * 2

    @staticmethod
    def kept(x):
        return x * 3


model = Model()
bound = model.predict
fixed = functools.partial(plain, scale=2.0)
first = functools.partial(plain, 3.0)
jitted = jax.jit(plain, static_argnames=("n",))
mapped = jax.vmap(lambda x, y: x + y, in_axes=(0, None))
graded = jax.grad(lambda x, y: (x * y).sum())
saved = jax.checkpoint(plain)
"""

X, Y = "--input=x=float32[4]", "--input=y=float32[4]"


@pytest.fixture
def init(aotc: Run, tmp_path: Path) -> Run:
    (tmp_path / "calls.py").write_text(CALLABLES)

    def run(name: str, *options: str) -> Any:
        return aotc("init", f"calls:{name}", *options, "--entry-point=f", "-o", "f.toml")

    return run


@pytest.mark.parametrize(
    ("name", "options", "inputs", "static"),
    [
        ("plain", [X, Y], "xy", {}),
        ("plain", [X, Y, "--static=n=3"], "xy", {"n": 3}),
        ("any_more", [X, Y], "xy", {}),
        ("nothing", [], "", {}),
        ("model", [X], "x", {}),
        ("model.predict", [X], "x", {}),
        ("bound", [X], "x", {}),
        ("Model.made", [X], "x", {}),
        ("Model.kept", [X], "x", {}),
        ("fixed", [X, Y], "xy", {}),
        ("first", [Y], "y", {}),
        ("jitted", [X, Y], "xy", {}),
        ("mapped", [X, Y], "xy", {}),
        ("graded", [X, Y], "xy", {}),
        ("saved", [X, Y], "xy", {}),
    ],
)
def test_whatever_can_be_called_by_name_is_drafted_and_traces(
    init: Run, tmp_path: Path, name: str, options: list[str], inputs: str, static: dict[str, Any]
) -> None:
    done = init(name, *options)
    assert done.exit_code == 0, done.stderr
    entry_point = read(tmp_path / "f.toml")["entry_points"]["f"]
    assert entry_point["function"] == f"calls:{name}"
    assert set(entry_point.get("inputs", {})) == set(inputs)
    assert entry_point.get("static", {}) == static


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("spread", [], "spread(*xs)"),
        ("spread", ["--input=xs=float32[4]"], "spread(*xs)"),
        ("by_name", [X], "by_name(**xs)"),
        ("yields", [X], "it yields"),
        ("later", [X], "async def"),
        ("Model", [X], "calls:model"),
        ("Model.predict", [X], "calls:model.predict"),
        ("Model.__call__", [X], "a method"),
    ],
)
def test_what_no_manifest_can_call_is_refused_and_nothing_is_written(
    init: Run, tmp_path: Path, name: str, options: list[str], says: str
) -> None:
    done = init(name, *options)
    assert (done.exit_code, done.codes) == (2, ["AOTC-E085"]), done.stderr
    assert says in done.stderr
    assert not list(tmp_path.glob("*.toml"))


def test_arguments_without_a_name_get_nothing_and_a_note_says_so(init: Run) -> None:
    notes = init("any_more", X, Y, "--json").document["notes"]
    assert [note.partition(" gets")[0] for note in notes] == [
        "the function's *rest",
        "the function's **more",
    ]


def test_an_option_for_such_an_argument_says_where_it_would_land(init: Run) -> None:
    done = init("any_more", X, Y, "--input=other=float32[4]")
    assert done.codes == ["AOTC-E083"]
    assert "other would land in *rest or **more" in done.stderr
    assert "def f(other, ...)" in done.stderr
