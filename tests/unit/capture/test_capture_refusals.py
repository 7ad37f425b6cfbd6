"""Programs that cannot be shipped: each kind is refused by its code, and says where it is."""

import re
from pathlib import Path

import pytest
from capturing import BATCHED, ONE_INPUT, Capture

MADE = "jax.ShapeDtypeStruct((4,), jnp.float32)"
CALLBACKS = {
    "pure_callback": f"return jax.pure_callback(lambda y: y, {MADE}, x)",
    "io_callback": f"return io_callback(lambda y: y, {MADE}, x)",
    "ordered io_callback": "io_callback(print, None, x, ordered=True)\n    return x",
    "buffer_callback": f"return buffer_callback(lambda context, out, y: None, {MADE})(x)",
    "debug.print": "jax.debug.print('{}', x)\n    return x",
    "ordered debug.print": "jax.debug.print('{}', x, ordered=True)\n    return x",
    "debug.callback": "jax.debug.callback(print, x)\n    return x",
    "debug.breakpoint": "jax.debug.breakpoint()\n    return x",
    "debug.inspect": "jax.debug.inspect_array_sharding(x, callback=print)\n    return x",
}

NESTED = {
    "jit in vmap": "return jax.vmap(jax.jit(noisy))(x)",
    "scan": "return jax.lax.scan(lambda c, a: (noisy(c), a), 0.0, x)",
    "cond": "return jax.lax.cond(x[0] > 0, noisy, lambda a: a, x)",
    "while_loop's condition": "return jax.lax.while_loop(lambda a: noisy(a)[0] < 3, jnp.sin, x)",
    "remat and grad": "return jax.grad(lambda a: jax.checkpoint(noisy)(a).sum())(x)",
    "custom_vjp": """
            g = jax.custom_vjp(noisy)
            g.defvjp(lambda a: (noisy(a), None), lambda _, c: (c,))
            return g(x)
    """,
    "custom_linear_solve": """
            return jax.lax.custom_linear_solve(lambda a: a * 2, x, lambda _, b: noisy(b))
    """,
}


@pytest.mark.parametrize("kind", CALLBACKS)
def test_a_call_into_python_is_refused_with_its_line(capture: Capture, kind: str) -> None:
    refusal = capture(
        "from jax.experimental import io_callback\n"
        "from jax.experimental.buffer_callback import buffer_callback\n"
        f"def f(x):\n    {CALLBACKS[kind]}\n"
    ).refusal
    assert refusal.code == "AOTC-E822"
    assert refusal.where == "f"
    assert re.search(r" at program\.py:\d+ \(f\)$", refusal.found)


@pytest.mark.parametrize("kind", NESTED)
def test_a_callback_is_found_wherever_it_is_nested(capture: Capture, kind: str) -> None:
    outcome = capture(
        f"""
        def noisy(a):
            jax.debug.print("here")
            return jnp.sin(a)

        def f(x):
            {NESTED[kind]}
        """
    )
    assert {finding.code for finding in outcome.findings} == {"AOTC-E822"}
    assert all("(noisy)" in finding.found for finding in outcome.findings)


REFERENCE = "REF = jax.new_ref(jnp.zeros(4))\n"
SILENT = "class Silent(Exception):\n    def __str__(self): return 1 / 0\n"
NUMPY = ("title = numpy call on a traced array", "hint = use jnp instead of numpy at program.py:6")
PYTHON = ("hint = use jnp instead of float() and math at program.py:7",)
WIDE = ("found has program.py:6", "hint has enable_x64")
DONATED = ONE_INPUT + 'donate = ["x"]\n'

REFUSED: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("AOTC-E823", "from jax.experimental import checkify\n"): {
        f"return jax.ffi.ffi_call('foo', {MADE}, has_side_effect=True)(x)": (),
        "checkify.check(x.sum() > 3, 'too small')\n    return x": (),
    },
    ("AOTC-E824", REFERENCE): dict.fromkeys(
        (
            "return x + REF[...]",
            "REF[...] = x\n    return x",
            "REF[...] += x\n    return x",
            "return jax.jit(lambda a: a + REF[...])(x)",
            "return jax.lax.fori_loop(0, 3, lambda i, a: a + REF[...], x)",
        ),
        ("found has float32[4]", "found has  at program.py:7 ("),
    ),
    ("AOTC-E825", ""): {
        "return {'a': x, 'b': 'text'}": ("where = f output b", "found has str"),
        "return (x, object())": ("where = f output 1", "found has object"),
        "return (x, [f])": ("where = f output 1/0", "found has a function"),
        "return (x, OSError())": ("where = f output 1", "found has an OSError"),
        "return x.shape and {x.shape}": ("where = f output result", "found has set"),
        "return (x, np.array(['a']))": ("where = f output 1", "found has <U1"),
        "return (x, np.array([{}], dtype=object))": ("where = f output 1", "found has object"),
        "return (x, np.datetime64('2020-01-01'))": (
            "where = f output 1",
            "found has datetime64[D]",
        ),
        f"return {MADE}": ("where = f output result", "found has ShapeDtypeStruct"),
        "return jax.new_ref(x)": ("where = f output result", "found has Ref"),
        "return (a for a in [x])": ("where = f output result", "found has generator"),
        "return None": ("where = f output", "found has None"),
        "return {}": ("where = f output", "found has {}"),
        "return ()": ("where = f output", "found has ()"),
        "return [{}, (None, [])]": ("where = f output", "found has [{}, (None, [])]"),
    },
    ("AOTC-E826", ""): {
        **dict.fromkeys(
            (
                *("return x if x[0] > 0 else -x", "return jnp.zeros(int(x[0]))"),
                *("return jnp.zeros(x.astype(int)[0])", "return x[x > 0]", "return jnp.unique(x)"),
                "return [x, -x][x.astype(int)[0]]",
                "return sum(a for a in range(x.astype(int)[0]))",
            ),
            ("found has program.py:6",),
        ),
        "return np.sin(x)": NUMPY,
        "return jnp.asarray(np.asarray(x))": NUMPY,
    },
    ("AOTC-E826", "import math\n"): {
        "return math.sin(x[0])": PYTHON,
        "return x * float(x[0])": PYTHON,
    },
    ("AOTC-E828", ""): {
        "return x.astype(jnp.float64)": WIDE,
        "return jnp.zeros(4, 'int64')": WIDE,
        "return jax.jit(lambda a: jnp.arange(4, dtype='float64') + a)(x)": WIDE,
    },
    ("AOTC-E829", SILENT): {
        "raise Silent()": ("found has Silent at",),
        "raise KeyError()": ("found has KeyError at",),
    },
    ("AOTC-E832", ""): {
        "return np.zeros(3, jax.dtypes.float0)": ("where = f output result", "found has float0"),
        "return x.astype('int2')": ("where = f output result", "found has int2"),
        "return x, [x.astype('int2')]": ("where = f output 1/0", "found has int2"),
    },
    ("AOTC-E837", ""): {
        "return x[:2]": ("where = f input x",),
        "return x.astype(jnp.bfloat16)": ("where = f input x",),
        "return (x.sum(), None)": ("where = f input x",),
    },
}
"""Bodies of functions by the code and what stands before them, with what a refusal has to say."""


@pytest.mark.parametrize(
    ("code", "before", "body"), [(*key, body) for key, rows in REFUSED.items() for body in rows]
)
def test_unshippable_is_named(capture: Capture, code: str, before: str, body: str) -> None:
    manifest = DONATED if code == "AOTC-E837" else ONE_INPUT
    refusal = capture(f"{before}def f(x):\n    {body}\n", manifest).refusal
    assert refusal.code == code
    for each in REFUSED[code, before][body]:
        field, how, text = each.split(" ", 2)
        said = getattr(refusal, field)
        assert said == text if how == "=" else text in said


def test_a_mutable_reference_made_and_used_inside_is_fine(capture: Capture) -> None:
    outcome = capture("""
        def f(x):
            total = jax.new_ref(jnp.zeros(4))
            def add(i, _):
                total[...] += x
            jax.lax.fori_loop(0, 3, add, None)
            return jax.freeze(total)
    """)
    assert outcome.f.outputs[0].shape == (4,)


@pytest.mark.parametrize(
    ("body", "code"), [("jax.debug.print('')", "AOTC-E822"), ("1 / 0", "AOTC-E829")]
)
def test_a_line_outside_the_manifests_folder_is_named_by_its_module(
    capture: Capture, tmp_path_factory: pytest.TempPathFactory, body: str, code: str
) -> None:
    folder = tmp_path_factory.mktemp("installed")
    (folder / "package").mkdir()
    library = folder / "package" / "library.py"
    library.write_text(f"import jax\ndef f(x):\n    {body}\n    return x\n")
    refusal = capture(
        f"import sys\nsys.path.append({str(folder)!r})\nfrom package.library import f\n"
    ).refusal
    assert refusal.code == code
    assert " at package/library.py:3" in refusal.found


@pytest.mark.parametrize("folder", [".venv/lib/site-packages", "../site-packages"])
def test_library_is_never_the_program(capture: Capture, tmp_path: Path, folder: str) -> None:
    installed = tmp_path / folder / f"chatty_{tmp_path.name}"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("import jax\ndef say():\n    jax.debug.print('')\n")
    refusal = capture(
        f"import sys\nsys.path.append({str(installed.parent)!r})\n"
        f"from {installed.name} import say\ndef f(x):\n    say()\n    return x\n"
    ).refusal
    assert refusal.code == "AOTC-E822"
    assert " at program.py:9 (f), through " in refusal.found
    assert refusal.found.endswith(f"{installed.name}/__init__.py:3 (say)")


def test_checks_of_equinox_are_one_finding_at_the_programs_own_lines(capture: Capture) -> None:
    refusal = capture("""
        import equinox as eqx
        def positive(x):
            return eqx.error_if(x, x.sum() < 0, "negative")
        def f(x):
            y = jax.lax.map(positive, x)
            return eqx.error_if(y, y.sum() > 9, "too large") + jax.vmap(positive)(x)
    """).refusal
    assert refusal.code == "AOTC-E822"
    assert "equinox.error_if" in refusal.found
    assert refusal.found.endswith(" at program.py:8 (positive), program.py:11 (f)")
    assert "EQX_ON_ERROR=nan" in refusal.hint


@pytest.mark.parametrize(
    "body",
    [
        "return x if len(x) == 1 else (x, x)",
        "return {f'row_{len(x)}': x}",
        "return x if len(x) == 1 else x.astype(jnp.int32)",
        "return x if len(x) == 1 else x.reshape(-1)",
        "return (x, None) if len(x) == 1 else (x, x)",
    ],
    ids=["structure", "keys", "dtype", "rank", "None"],
)
def test_a_result_that_changes_between_profiles_is_refused(capture: Capture, body: str) -> None:
    refusal = capture(f"def f(x):\n    {body}\n", BATCHED).refusal
    assert refusal.code == "AOTC-E827"
    assert refusal.where == "f[batch=8]"
    assert "f[batch=1]" in refusal.expected


def test_a_64_bit_type_is_fine_where_it_is_enabled(capture: Capture) -> None:
    outcome = capture("def f(x): return x.astype('float64')", header="enable_x64 = true\n")
    assert outcome.f.outputs[0].dtype.value == "float64"


def test_one_output_takes_over_one_donated_input_only(capture: Capture) -> None:
    manifest = ONE_INPUT + 'inputs.y = { shape = [4], dtype = "float32" }\ndonate = ["x", "y"]\n'
    refusal = capture("def f(x, y): return x + y", manifest).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E837", "f input y")


@pytest.mark.parametrize(("program", "header"), [("True", ""), ("False", "enable_x64 = true\n")])
def test_program_that_sets_config_is_refused(capture: Capture, program: str, header: str) -> None:
    source = f"jax.config.update('jax_enable_x64', {program})\ndef f(x): return x + 1"
    refusal = capture(source, header=header).refusal
    assert refusal.code == "AOTC-E828"
    assert refusal.title == "program changed `jax_enable_x64`"


def test_function_that_sets_config_is_refused_although_it_is_reset(capture: Capture) -> None:
    source = (
        "def f(x):\n    jax.config.update('jax_enable_x64', True)\n    return x + 1\n"
        "def g(x):\n    jax.config.update('jax_enable_x64', False)\n    return x + 1\n"
    )
    taken = 'inputs.x = { shape = [4], dtype = "float32" }\n'
    manifest = "".join(
        f'[entry_points.{name}]\nfunction = "program:{name}"\n{taken}' for name in "fg"
    )
    assert capture(source, manifest).refusal.code == "AOTC-E828"


def test_a_program_that_sets_it_while_fixtures_are_made_is_refused_too(capture: Capture) -> None:
    source = (
        "import inspect\n"
        "def made():\n"
        "    if any(frame.function == 'fixture_inputs' for frame in inspect.stack()):\n"
        "        jax.config.update('jax_enable_x64', True)\n"
        "    return np.zeros(4, np.float32)\n"
        "def f(x): return x + 1\n"
    )
    manifest = '[entry_points.f]\nfunction = "program:f"\ninputs.x = { like = "program:made" }\n'
    assert capture(source, manifest).refusal.code == "AOTC-E828"


def test_a_result_whose_class_converts_its_children_is_refused(capture: Capture) -> None:
    refusal = capture(
        """
        @jax.tree_util.register_pytree_node_class
        class Location:
            def __init__(self, value): self.value = jnp.asarray(value, jnp.float32)
            def tree_flatten(self): return (self.value,), None
            @classmethod
            def tree_unflatten(cls, _, children): return cls(*children)

        def f(x): return Location(x)
        """
    ).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E833", "f result")
    assert "ShapeDtypeStruct" in refusal.found
