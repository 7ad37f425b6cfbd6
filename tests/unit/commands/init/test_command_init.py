"""`aotc init`: from a function to a manifest that traces, and what it refuses."""

import io
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.base.errors import BuildManifestError, UsageError
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.commands.init.drafting_process import DEFAULT_TARGET, Drafted, check, installed_engines
from aotc.commands.init.init_command import init as init_command
from aotc.commands.init.init_request import Job, read_request
from aotc.commands.init.inspect_function_worker import look
from aotc.commands.init.manifest_draft import Draft, draft, manifest_text
from tests.conftest import Run
from tests.refusals import error_of

Drafting = Callable[..., Draft]

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
def masked(mask):
    return mask
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


@pytest.fixture
def drafting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drafting]:
    """Draft a manifest in this process: a child process would import jax for each."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "calls.py").write_text(CALLABLES)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("program", "calls"):  # of another test, whose folder is gone
        monkeypatch.delitem(sys.modules, name, raising=False)

    def drafted(*arguments: str) -> Draft:
        options = init_command.make_context("init", [*arguments]).params
        kinds = ("inputs", "likes", "weights", "static", "dimensions")
        request = read_request(
            options["function"], options["example"], **{kind: options[kind] for kind in kinds}
        )
        job = Job(str(tmp_path), request.function, request.example, tuple(request.likes.values()))
        return draft(
            request,
            look(job, Progress(io.StringIO(), tmp_path)),
            name="program",
            entry_point=options["entry_point"],
            targets=(DEFAULT_TARGET,),
        )

    yield drafted
    for name in ("program", "calls"):
        sys.modules.pop(name, None)


def entry_point_of(drafted: Draft) -> dict[str, Any]:
    ((_, entry_point),) = tomllib.loads(manifest_text(drafted))["entry_points"].items()
    return dict(entry_point)


def traced(drafts: Sequence[Draft], folder: Path) -> set[str]:
    """The entry points of a manifest with all that was drafted, which is traced once."""
    texts = [manifest_text(drafted) for drafted in drafts]
    sections = dict.fromkeys(section for text in texts for section in text.split("\n\n"))
    text = "\n\n".join(section.strip() for section in sections)
    path = folder / "all.toml"
    path.write_text(text)
    program, _ = check(Drafted(path, drafts[0], text))
    return set(program.entry_points)


def refusal_of(drafting: Drafting, arguments: Sequence[str]) -> tuple[int, list[str], str]:
    """The exit code, the codes, and all that is said."""
    refused = error_of(UsageError, drafting, *arguments)
    findings = refused.findings
    said = "\n".join(f"{f.title}\n{f.where}\n{f.expected}\n{f.found}\n{f.hint}" for f in findings)
    return refused.exit_code, [finding.code for finding in findings], said


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def test_described_function_becomes_a_traceable_manifest(run: Run, tmp_path: Path) -> None:
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
    assert "other sizes need out_of_profile" in done.document["manifest"]
    entry_point = manifest["entry_points"]["predict"]
    assert manifest["weights"] == {"params": {"init": "program:weights"}}
    assert entry_point["bind"] == {"params": "params"}
    assert entry_point["static"] == {"mode": "fast"}
    assert entry_point["inputs"] == {"image": {"shape": ["batch", 4], "dtype": "float32"}}


@pytest.mark.parametrize(
    ("name", "init"), [("w.npz", {}), ("checkpoint", {"init": "program:weights"})]
)
def test_weights_files_and_folders_are_sources(
    run: Run, tmp_path: Path, name: str, init: dict[str, str]
) -> None:
    tensors = {"w": np.ones((4, 3), np.float32)}
    np.savez(tmp_path / "w.npz", **tensors)  # type: ignore[arg-type]
    (tmp_path / "checkpoint").mkdir()
    weights = write_tensors(tensors, where="test")
    (tmp_path / "checkpoint" / "model.safetensors").write_bytes(weights)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "program.py").write_text(PROGRAM)
    output = "manifests/program.toml"
    options = (f"--weights=params={name}", "--input=image=float32[batch,4]", "--static=mode='a'")
    also = [f"--weights=params={function}" for function in init.values()]
    done = run("init", "program:predict", *options, *also, "-o", output, "--json")
    assert done.exit_code == 0, done.stdout
    manifest = read(tmp_path / output)
    assert manifest["weights"] == {"params": {"source": f"../{name}", **init}}
    assert manifest["entry_points"]["predict"]["tolerance"] == {"rtol": 1e-5, "atol": 1e-5}


def test_an_example_gives_dtypes_shapes_and_fixed_values(run: Run, tmp_path: Path) -> None:
    done = run(
        *("init", "program:predict", "--example=program:example"),
        *("--weights=params=program:weights", "--input=image=[batch,4]", "--dimension=batch=2:16"),
        "--json",
    )
    assert done.exit_code == 0, done.stdout
    manifest = read(tmp_path / "program.toml")
    assert manifest["dimensions"] == {"batch": {"range": [2, 16], "profiles": [2, 8, 16]}}
    assert manifest["entry_points"]["predict"]["static"] == {"temperature": 2.0, "mode": "fast"}
    notes = "\n".join(done.document["notes"])
    assert "--input 'temperature=float32[]'" in notes


BY_CHANCE = """
import numpy as np
%s
def scaled(x, *, scale):
    return x * scale
def example():
    return {"x": np.ones(3), "scale": float(np.random.random())}
"""


def test_a_process_that_is_forked_finds_what_one_of_its_own_would(run: Run, tmp_path: Path) -> None:
    """Other numbers by chance each time, and modules that were written meanwhile."""
    found = set()
    for name, more in (("one", ""), ("other", "import beside")):
        (tmp_path / "chance.py").write_text(BY_CHANCE % more)
        done = run("init", "chance:scaled", "--example=chance:example", "-o", f"{name}.toml")
        assert done.exit_code == 0, done.stderr
        found.add(read(tmp_path / f"{name}.toml")["entry_points"]["scaled"]["static"]["scale"])
        (tmp_path / "beside.py").touch()
    assert len(found) == 2


def test_doubles_of_an_example_are_narrowed_with_a_note(drafting: Drafting) -> None:
    drafted = drafting(
        *("program:predict", "--example=program:example", "--weights=params=program:weights")
    )
    image = entry_point_of(drafted)["inputs"]["image"]
    assert image == {"shape": ["batch", 4], "dtype": "float32"}, "the first axis of all inputs"
    assert drafted.dimensions["batch"].profiles == (1, 8, 64)
    assert "image is float64 in the example" in "\n".join(drafted.notes)


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
    assert "note: nested has 16 profiles, one for each combination of sizes" in done.stderr


def test_several_engines_are_listed_and_measured_by_the_first_build(drafting: Drafting) -> None:
    drafted = drafting("program:annotated")
    assert "tune" not in manifest_text(replace(drafted, engines=("xla",)))
    written = tomllib.loads(manifest_text(replace(drafted, engines=("xla", "iree"))))
    assert (written["engines"], written["tune"]) == (["xla", "iree"], "auto")
    assert installed_engines()[0] == "xla"


def test_keys_annotations_and_structures_are_inputs(drafting: Drafting, tmp_path: Path) -> None:
    drafts = [
        drafting("program:draw", "--example=program:draw_example"),
        drafting("program:annotated"),
        drafting("program:tuple_of", "--like=state=program:make_state", "--entry-point=step"),
        drafting("program:step_of", "--like=state=program:sized_state", "--input=x=float32[batch]"),
    ]
    draw, annotated, step, step_of = (entry_point_of(drafted)["inputs"] for drafted in drafts)
    assert draw == {"key": {"shape": [], "dtype": "key<fry>"}}
    assert annotated == {"image": {"shape": ["batch", 4], "dtype": "float32"}}
    assert step == {"state": {"like": "program:make_state"}}
    sized = {"like": "program:sized_state", "arguments": {"batch": "batch"}}
    assert step_of["state"] == sized
    assert traced(drafts, tmp_path) == {"draw", "annotated", "step", "step_of"}


def test_a_structure_of_a_size_that_no_input_has_is_refused_by_the_trace(run: Run) -> None:
    none = ("--like=state=program:sized_state", "--input=x=float32[8]", "-o", "n.toml")
    done = run("init", "program:step_of", *none)
    assert done.codes == ["AOTC-E829"] and "arguments = { batch = … }" in done.stderr


NESTED = ":nested --example=program:nested_example"
TOLD = {
    "AOTC-E080": [
        ("", "function reference is invalid"),
        (".predict", "did you mean `program:predict`?"),
        ("p" * 300, "name a function"),
        (":predict --input=image=flot32[3]", "did you mean `float32`?"),
        (":predict --input=image=int[3]", "did you mean `int32`?"),
        (":predict --input=image=program:f", "--like NAME=program:f"),
        (":predict --like=image=f32[3]", "--input 'NAME=f32[3]'"),
        (":predict --input=image", "image=float32[batch,64]"),
        (":predict --static=mode=fast", "in quotes"),
        (":predict --weights=params=x", "FILE.safetensors"),
        (":predict --weights=params=x.pt", "read it in a function"),
        (":predict --like=params=x", "package.module:function"),
        (":predict --input=image=f32[b] --dimension=n=1:8", "one of: b"),
        (":predict --input=image=f32[b] --dimension=b=8:1", "LOWEST:HIGHEST"),
        (":predict --input=image=f32[3] --static=image=1", "parameter described twice"),
        (":predict --input=image=f32[3] --input=image=f32[4]", "one value for image"),
    ],
    "AOTC-E081": [
        (":predict", "parameter image"),
        (":masked", '`out_of_profile.seq = { policy = "pad", mask = "mask" }`'),
    ],
    "AOTC-E082": [
        (":predict --example=program:broken", "no data today"),
        (":predict --example=program:too_many", "3 values"),
        (":predict --example=program:unknown_name", "imago"),
        (":tuple_of --example=program:tuple_example", "--like state="),
        (":annotated --example=program:leave", "SystemExit"),
    ],
    "AOTC-E083": [
        (f"{NESTED} --input=tokens=[a]", "axes that fit the example's shape [3, 4]"),
        (f"{NESTED} --input=tokens=[a,a]", "a=3, as in tokens"),
        (f"{NESTED} --input=batch/y=[a]", "an array of the example"),
        (":predict --input=image=[a]", "a dtype"),
    ],
}
"""By code: what follows the name of the module, and what is said."""


@pytest.mark.parametrize(
    ("code", "arguments", "says"), [(code, *each) for code, told in TOLD.items() for each in told]
)
def test_undescribable_is_refused(drafting: Drafting, code: str, arguments: str, says: str) -> None:
    exit_code, codes, said = refusal_of(drafting, f"program{arguments}".split())
    assert (exit_code, code in codes) == (2, True), said
    assert says in said


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code", "says"),
    [
        (["program.py"], 2, "AOTC-E080", "`program:predict`"),
        ([sys.executable], 2, "AOTC-E080", "unsupported model file type"),
        (["program:annotated", "--input=imgae=f32[3]"], 2, "AOTC-E083", "did you mean `image`?"),
        (["program:nope"], 3, "AOTC-E820", ""),
        (["program:annotated", "--target=cpu-x86-64-v9"], 3, "AOTC-E811", ""),
    ],
)
def test_nothing_is_written_for_what_is_refused(
    run: Run, tmp_path: Path, arguments: list[str], exit_code: int, code: str, says: str
) -> None:
    done = run("init", *arguments)
    assert (done.exit_code, done.codes) == (exit_code, [code]), done.stderr
    assert says in done.stderr
    assert not list(tmp_path.glob("*.toml"))


def test_a_file_is_replaced_with_force_alone(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "program.toml"
    for size, options in ((4, []), (5, ["--force"])):
        done = run("init", "program:branches", f"--input=x=f32[{size}]", "--json", *options)
        assert (done.exit_code, done.document["findings"][0]["code"]) == (3, "AOTC-E826")
        assert done.document["manifest"] == path.read_text()
        assert f"shape = [{size}]" in path.read_text()
    done = run("init", "program:annotated")
    assert (done.exit_code, done.codes) == (2, ["AOTC-E084"])
    assert "shape = [5]" in path.read_text()


@pytest.mark.parametrize("name", ["a.b", 'we ird"', "größe"])
def test_quoted_names_fail_manifest_rules(drafting: Drafting, tmp_path: Path, name: str) -> None:
    drafted = drafting("program:annotated", "--input=image=f32[4]", f"--entry-point={name}")
    refused = error_of(BuildManifestError, traced, [drafted], tmp_path)
    assert [finding.code for finding in refused.findings] == ["AOTC-E805"]
    assert list(tomllib.loads((tmp_path / "all.toml").read_text())["entry_points"]) == [name]


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


CALLED: list[tuple[str, list[str], str, dict[str, Any]]] = [
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
]
"""A name, options, and the inputs and values that they describe."""


def test_named_callables_are_drafted_and_traced(drafting: Drafting, tmp_path: Path) -> None:
    drafts = {}
    for number, (name, options, inputs, static) in enumerate(CALLED):
        drafts[f"f{number}"] = drafting(f"calls:{name}", *options, f"--entry-point=f{number}")
        entry_point = entry_point_of(drafts[f"f{number}"])
        assert entry_point["function"] == f"calls:{name}"
        assert set(entry_point.get("inputs", {})) == set(inputs), name
        assert entry_point.get("static", {}) == static, name
    assert traced([*drafts.values()], tmp_path) == set(drafts)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("spread", [], "spread(*xs)"),
        ("spread", ["--input=xs=float32[4]"], "spread(*xs)"),
        ("by_name", [X], "by_name(**xs)"),
        ("yields", [X], "callable is a generator"),
        ("later", [X], "callable is a coroutine"),
        ("Model", [X], "calls:model"),
        ("Model.predict", [X], "calls:model.predict"),
        ("Model.__call__", [X], "method has no object"),
    ],
)
def test_uncallable_refused(drafting: Drafting, name: str, options: list[str], says: str) -> None:
    exit_code, codes, said = refusal_of(drafting, [f"calls:{name}", *options])
    assert (exit_code, codes) == (2, ["AOTC-E085"]), said
    assert says in said


def test_arguments_without_a_name_get_nothing_and_a_note_says_so(drafting: Drafting) -> None:
    assert [note.partition(" gets")[0] for note in drafting("calls:any_more", X, Y).notes] == [
        "the function's *rest",
        "the function's **more",
    ]


def test_an_option_for_such_an_argument_says_where_it_would_land(drafting: Drafting) -> None:
    options = ("calls:any_more", X, Y, "--input=other=float32[4]", "--entry-point=f")
    _, codes, said = refusal_of(drafting, options)
    assert codes == ["AOTC-E083"]
    assert "--input other" in said
    assert "def f(other, ...)" in said


def test_keras_numpy_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libraries" / "keras").mkdir(parents=True)
    loop = "import numpy as np\n\n\ndef predict(x):\n    return np.asarray(x)\n"
    (tmp_path / "libraries" / "keras" / "__init__.py").write_text(loop)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "libraries"))
    (tmp_path / "classifier.py").write_text("import keras\npredict = keras.predict\n")
    done = run("init", "classifier:predict", "--input=x=float32[4,64]")
    assert done.codes == ["AOTC-E826"]
    assert "stateless_call" in done.stderr and "use jnp" not in done.stderr
