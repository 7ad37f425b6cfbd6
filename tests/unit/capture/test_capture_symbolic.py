"""All sizes at once: axes by inference, programs that decide by a size, modules for any size."""

from pathlib import Path
from textwrap import dedent

import pytest
from capturing import BATCHED, IMPORTS, Capture, key_path

from aotc.check.trial_records import plan_file
from aotc.pipeline.build_notes import size_notes
from aotc_runtime.schema.bundle_manifest import InputArgument, WeightArgument

TWO = """
[dimensions]
batch = { range = [1, 64], profiles = [2, 8] }
seq = { range = [8, 64], multiple_of = 8, profiles = [16] }

[entry_points.f]
function = "program:f"
inputs.x = { shape = ["batch", "seq", 4], dtype = "float32" }
"""


def test_axes_are_inferred_for_the_whole_range(capture: Capture) -> None:
    source = """
def f(x):
    return {
        "pairs": jnp.einsum("bsd,btd->bst", x, x),
        "flat": x.reshape(-1),
        "longer": jnp.concatenate([x, x, x[:, :3]], axis=1),
        "square": jnp.outer(x[:, 0, 0], x[:, 0, 0]).reshape(-1),
        "first": x[:4],
        "halves": x[:, ::2],
    }
"""
    f = capture(source, TWO).f
    shapes = {spec.path: spec.shape for spec in f.outputs}
    assert shapes == {
        "pairs": ("batch", "seq", "seq"),
        "flat": ("4*batch*seq",),
        "longer": ("batch", "2*seq+3", 4),
        "square": ("batch*batch",),
        # min(batch, 4), which the profiles do not show to be no constant
        "first": ("?", "seq", 4),
        "halves": ("batch", "?", 4),
    }
    assert f.specialized == {}


def test_inputs_have_their_dimensions_at_one_size(capture: Capture) -> None:
    one = TWO.replace("[1, 64], profiles = [2, 8]", "[2, 2], profiles = [2]")
    f = capture("def f(x):\n    return x if x.shape[0] == 2 else x[:0]\n", one).f
    assert [spec.shape for spec in (*f.inputs, *f.outputs)] == [("batch", "seq", 4), (2, "seq", 4)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("if x.shape[0] > 4: x = x * 2", "asks whether batch > 4"),
        ("x = x * (2 if x.shape[0] == 8 else 3)", "asks whether batch == 8"),
        ("x = x * (2 if x.shape[0] in (3, 8) else 3)", "asks whether batch == 3"),
        ("x = x * (2 if x.shape[0] != 8 else 3)", "asks whether batch == 8"),
        ("x = x + sum(x[i] for i in range(x.shape[0]))", "needs the size as a number"),
        ("x = x + np.ones(int(x.shape[0]), np.float32)[:, None]", "needs the size as a number"),
        # Tables and texts: nothing is compared, since the hash of a symbolic size is no number's.
        ("x = x * {12: 2.0, 40: 3.0}.get(x.shape[0], 1.0)", "uses batch as a key"),
        ("x = x * (2 if x.shape[0] + 1 in {12, 48} else 3)", "uses batch + 1 as a key"),
        ("x = x * {(12, 4): 2.0}.get(x.shape, 1.0)", "uses batch as a key"),
        ("x = x * collections.Counter({12: 2})[x.shape[0]]", "uses batch as a key"),
        ("x = x * {Key(12): 2.0}.get(Key(x.shape[0]), 1.0)", "uses batch as a key"),
        ("x = x * (2 if str(x.shape[0]) == '12' else 3)", "writes batch as text"),
        ("x = x * (2 if f'{x.shape}' == '(12, 4)' else 3)", "writes batch as text"),
        ("x = x * (2 if repr(2 * x.shape[0]) == '24' else 3)", "writes 2*batch as text"),
        ("x = x * (2 if '[12,4]' in str(x) else 3)", "writes batch as text"),
        ("x = x * (2 if '[12,4]' in f'{x.aval}' else 3)", "writes batch as text"),
        # What comes first is told, although jax cannot go on later, and scans are traced.
        ("x = x * jnp.hamming({12: 2}.get(x.shape[0], x.shape[0]))[:1]", "uses batch as a key"),
        (
            "x = jax.lax.associative_scan(jnp.add, x) * {12: 2}.get(x.shape[0], 1)",
            "uses batch as a key",
        ),
        # Truth, other types than integers, the class, and errors that the program itself handles.
        ("if x.shape[0] % 2: x = x * 2", "asks whether mod(batch, 2) == 0"),
        ("x = x * (2 if not x.shape[0] - 12 else 1)", "asks whether batch - 12 == 0"),
        ("x = x * (2 if any([x.shape[0] - 12]) else 1)", "asks whether batch - 12 == 0"),
        ("x = x * (2 if x.shape[0] == 12.0 else 1)", "needs the size as a number"),
        ("x = x * (2 if x.shape[0] == np.array(12) else 1)", "needs the size as a number"),
        ("x = x * (2 if x.shape[0] in np.array([12, 48]) else 1)", "needs the size as a number"),
        (
            "x = x * (2 if isinstance(x.shape[0], int) and x.shape[0] == 12 else 1)",
            "asks whether batch == 12",
        ),
        ("x = x * (2 if type(x.shape[0]) is int else 1)", "asks for the type of batch"),
        ("x = x * (2 if getattr(x.shape[0], 'real', 1) == 12 else 1)", "needs batch as a number"),
        ("x = x * match(x.shape[0])", "asks whether batch == 12"),
        ("x = x * match_class(x.shape[0])", "asks whether batch == 12"),
        ("x = x * (2 if operator.eq(x.shape[0], 12) else 1)", "asks whether batch == 12"),
        ("x = x * (2 if operator.index(x.shape[0]) == 12 else 1)", "needs the size as a number"),
        ("x = x * (2 if x.shape.count(12) else 1)", "asks whether batch == 12"),
        ("x = x * (2 if max(x.shape) == 12 else 1)", "asks whether batch < 4"),
        ("x = x * (2 if np.prod(x.shape) == 48 else 1)", "asks whether 4*batch == 48"),
        ("x = x * caught(int, x.shape[0])", "catches InconclusiveDimensionOperation"),
        ("x = x * caught(range, x.shape[0])", "catches TypeError"),
        # Numbers by other ways than int().
        ("x = x * np.hanning(x.shape[0] + 2)[1]", "needs the size as a number"),
        ("x = x * np.array([1.0, 2.0] * 64, np.float32)[x.shape[0]]", "needs the size as a number"),
        ("x = x * [1.0, 2.0][x.shape[0] & 1]", "needs the size as a number"),
        ("x = x * math.sqrt(x.shape[0])", "needs the size as a number"),
        ("x = x * (2 if x.shape[0] / 2 > 6 else 3)", "needs the size as a number"),
        ("x = x * (2 if f'{x.shape[0]:d}' == '12' else 3)", "needs the size as a number"),
    ],
)
def test_decision_by_size_is_told_with_its_line(capture: Capture, line: str, reason: str) -> None:
    source = "import collections, dataclasses, math, operator\n"
    source += "@dataclasses.dataclass(frozen=True)\nclass Key:\n    size: object\n"
    source += """
def match(n):
    match n:
        case 12: return 2
        case _: return 1
def match_class(n):
    match n:
        case int(12): return 2
        case _: return 1
def caught(function, n):
    try: return 2 if function(n) == function(12) else 1
    except Exception: return 1
"""
    source += f"def f(x):\n    {line}\n    return x\n"
    f = capture(source, BATCHED).f
    assert f.specialized.keys() == {"batch"}
    assert f.specialized["batch"].endswith(f" in program.py {reason}")
    assert f.lines.decisions["batch"].file == "program.py"
    assert f.outputs[0].shape == ("batch", 4)


@pytest.mark.parametrize(
    "line",
    [
        *("if x.shape[0] > 64: x = x * 2", "if x.shape[0] == 0: x = x * 2", "x = x / x.shape[0]"),
        *("x = x + jnp.arange(x.shape[0])[:, None]", "x = x * (2 if x.shape[1] == 4 else 3)"),
        "x = jax.jit(lambda x, n: x * n, static_argnums=1)(x, x.shape[0])",
        "x = x * (2 if str(x.shape[1]) == '4' else {5: 1}[x.shape[1]])",
    ],
)
def test_questions_answered_alike_specialise_nothing(capture: Capture, line: str) -> None:
    f = capture(f"def f(x):\n    {line}\n    return x\n", BATCHED).f
    assert f.specialized == {}


def test_only_the_dimension_that_is_asked_for_is_specialised(capture: Capture) -> None:
    f = capture("def f(x):\n    return x[0] if x.shape[1] > 16 else x[1]\n", TWO).f
    assert f.specialized.keys() == {"seq"}


@pytest.mark.parametrize(
    ("result", "function"),
    [
        ("jnp.where(x.sum() > 1e6, x + x.shape[0], x)", "f"),
        ("x.mean(axis=0)", "f"),
        ("x[-1]", "f"),
        ("jax.lax.map(lambda row: row / (2 * x.shape[0] + 1), x)", "f.<locals>.<lambda>"),
        ("x + jnp.zeros(x.shape)", None),
        ("x.reshape(-1, 2).reshape(x.shape)", None),
        ("x * x.shape[1]", None),
        ("x + jnp.ones((64, 4))[: x.shape[0]]", None),
    ],
)
def test_padded_size_is_told_with_line(capture: Capture, result: str, function: str | None) -> None:
    source = f"def f(x):\n    return {result}\n"
    found = capture(source, f'{BATCHED}out_of_profile.batch = "pad"\n')
    line = 1 + (IMPORTS + source).splitlines().index(f"    return {result}")
    place = f"program.py:{line} ({function})"
    assert found.f.counted == ({"batch": place} if function else {})
    notes = list(size_notes(found.program))
    assert [place in note and "size of batch" in note for note in notes] == [True] * bool(function)


def test_what_computes_with_a_size_that_every_call_has_is_not_told(capture: Capture) -> None:
    assert capture("def f(x):\n    return x.mean(axis=0)\n", BATCHED).f.counted == {}


@pytest.mark.parametrize("policy", ["pad", "split", "compile"])
def test_a_specialised_dimension_has_no_policy_but_fail(capture: Capture, policy: str) -> None:
    source = "def f(x):\n    return x * (2 if x.shape[0] > 4 else 3)\n"
    refusal = capture(source, f'{BATCHED}out_of_profile.batch = "{policy}"\n').refusal
    assert refusal.code == "AOTC-E838"
    assert key_path(refusal) == "entry_points.f.out_of_profile.batch"
    assert refusal.found.endswith("asks whether batch > 4")


@pytest.mark.parametrize(
    ("policy", "result", "found"),
    [
        ("pad", "x[:4]", "output result, float32[?, 4]"),
        ("split", "x[:4]", "output result, float32[?, 4]"),
        ("split", "x @ x.T", "output result, float32[batch, batch]"),
        ("split", "jnp.concatenate([x, x])", "output result, float32[2*batch, 4]"),
        ("compile", "jnp.fft.fft(x, axis=0).real", "NotImplementedError: Shape polymorphism"),
        ("split", "x * (x[:, :1] == x[:, 0] + 1e6).any(axis=1)[:, None]", "program.py:"),
        ("split", "x * jax.random.bernoulli(jax.random.key(0), 1e-6, x.shape)", "program.py:"),
        ("pad", "x * (jnp.asarray(x.shape[0]) == 12)", "program.py:"),
    ],
)
def test_unfit_axes_are_refused(capture: Capture, policy: str, result: str, found: str) -> None:
    manifest = f'{BATCHED}out_of_profile.batch = "{policy}"\n'
    refusal = capture(f"def f(x):\n    return {result}\n", manifest).refusal
    assert refusal.code == "AOTC-E839"
    assert found in refusal.found


def test_rows_with_random_keys_of_their_own_can_be_split(capture: Capture) -> None:
    keys = 'inputs.keys = { shape = ["batch"], dtype = "key<fry>" }'
    source = "def f(x, keys):\n    return x + jax.vmap(jax.random.normal)(keys)[:, None]\n"
    captured = capture(source, f'{BATCHED}{keys}\nout_of_profile.batch = "split"\n')
    assert captured.f.outputs[0].shape == ("batch", 4)


@pytest.mark.parametrize(
    ("policy", "refused"), [("", False), ('out_of_profile.batch = "pad"\n', True)]
)
def test_what_jax_traces_at_known_sizes_only_excludes_policies(
    capture: Capture, policy: str, refused: bool
) -> None:
    line = "    y = x * jnp.hamming(x.shape[0])[:, None]\n"
    source = f"def f(x):\n{line}    return y * {{12: 2}}.get(x.shape[0], 1)\n"
    captured = capture(source, BATCHED + policy)
    number = 1 + (IMPORTS + source).splitlines(keepends=True).index(line)
    if refused:
        assert captured.refusal.code == "AOTC-E839"
        assert f"program.py:{number}: InconclusiveDimensionOperation" in captured.refusal.found
    else:
        assert captured.f.outputs[0].shape == ("batch", 4)


def test_a_library_may_keep_caches_by_sizes(capture: Capture, tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "caches.py").write_text(
        "SEEN = {}\ndef remember(n):\n    SEEN[n] = f'a size of {n}'\n"
    )
    source = "import importlib\ncaches = importlib.import_module('site-packages.caches')\n"
    source += "def f(x):\n    caches.remember(x.shape[0])\n    return x\n"
    f = capture(source, BATCHED).f
    assert f.specialized == {}


def test_a_module_for_all_sizes_takes_every_leaf(capture: Capture) -> None:
    source = "def f(p, x, unused):\n    return x @ p['w']\ndef init():\n"
    source += "    return {'b': jnp.ones(3), 'w': jnp.ones((4, 5))}\n"
    manifest = f"""
[weights.params]
init = "program:init"
{BATCHED}bind = {{ p = "params" }}
inputs.unused = {{ shape = [2], dtype = "float32" }}
out_of_profile.batch = {{ policy = "compile", most = 2 }}
"""
    symbolic = capture(source, manifest).f.symbolic
    assert symbolic is not None
    assert symbolic.arguments == (
        WeightArgument(set="params", tensor="b"),
        WeightArgument(set="params", tensor="w"),
        InputArgument(leaf=0, aliased=False),
        InputArgument(leaf=1, aliased=False),
    )
    assert b"program.py" not in symbolic.module.artifact


def test_without_a_policy_that_compiles_there_is_no_such_module(capture: Capture) -> None:
    assert capture("def f(x):\n    return x\n", BATCHED).f.symbolic is None


@pytest.mark.parametrize("activations", ["none", "dynamic"])
def test_trials_know_that_activations_are_rounded(capture: Capture, activations: str) -> None:
    more = f"""
        bind = {{ w = "w" }}
        precision = "small"
        out_of_profile.batch = "pad"

        [weights.w]
        init = "program:init"

        [precision.small]
        weights = "int8"
        activations = "{activations}"
    """
    source = "def init(): return jnp.ones((4, 1024))\ndef f(w, x): return x @ w\n"
    scratch = capture(source, BATCHED + dedent(more)).scratch
    (planned,) = plan_file(scratch.folder).read()["cpu-x86-64-v3"]
    assert planned.rounds == (activations == "dynamic")
