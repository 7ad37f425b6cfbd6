"""Tests of traced lines by function, for each entry point separately."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import FunctionType
from typing import cast

import jax
import jax.numpy as jnp
import pytest
from capturing import BATCHED, Capture

from aotc.base.evidence import Coverage, FunctionCoverage
from aotc.base.source_locations import FunctionLines
from aotc.base.stages import CapturedEntryPoint
from aotc.capture.line_coverage import code_lines, control_flow, layers, recording
from aotc.pipeline.build_notes import program_notes

TWO = """
[entry_points.f]
function = "program:f"
inputs.x = { shape = [4], dtype = "float32" }

[entry_points.g]
function = "program:g"
inputs.x = { shape = [4], dtype = "float32" }
"""


def by_name(coverage: Coverage) -> dict[str, FunctionCoverage]:
    assert set(coverage.files) == {"program.py"}
    return {function.name: function for function in coverage.files["program.py"]}


def lines_of(entry_point: CapturedEntryPoint) -> dict[str, FunctionLines]:
    known = entry_point.lines.lines_in("program.py", entry_point.coverage.files["program.py"])
    return {lines.name: lines for lines in known if lines is not None}


def test_a_branch_that_python_does_not_take_is_missed(capture: Capture) -> None:
    found = capture(
        """
        def f(x):
            if x.shape[0] > 8:
                y = x + 1
                return y
            return x * 2
        """
    )
    entry_point = found.program.entry_points["f"]
    functions = by_name(entry_point.coverage)
    assert set(functions) == {"f"}
    assert (functions["f"].lines, functions["f"].traced) == (4, 2)
    f = lines_of(entry_point)["f"]
    assert f.missed == (f"{f.line + 2}-{f.line + 3}",)


def test_an_error_about_values_that_the_program_catches_is_noted(capture: Capture) -> None:
    program = capture(
        """
        def f(x):
            try:
                return x if x.sum() > 0 else -x
            except jax.errors.TracerBoolConversionError:
                return x * 4
        """
    ).program
    (caught,) = program.entry_points["f"].lines.caught
    assert re.fullmatch(r"TracerBoolConversionError at program\.py:\d+", caught)
    assert caught in "\n".join(program_notes(program))


def test_equations_belong_to_the_layers_in_whose_scopes_they_are() -> None:
    def inner(x: jax.Array, _: None) -> tuple[jax.Array, None]:
        with jax.named_scope("cell"):
            return jax.nn.relu(x) + 1, None

    def f(x: jax.Array) -> jax.Array:
        with jax.named_scope("model"), jax.named_scope("unknown"):
            x = jnp.sin(x)
            with jax.named_scope("dense"):
                x = jnp.where(x > 0, x, 0)
            return jax.lax.scan(inner, x, None, 3)[0] * 2

    jaxpr = jax.make_jaxpr(f)(1.0).jaxpr
    found = layers(jaxpr, {"model", "dense", "cell", "absent"})
    assert found.keys() == {"model", "model/dense", "cell"}
    assert sum(found.values()) == control_flow(jaxpr).equations
    assert layers(jaxpr, ()) == {}


def test_profiles_of_an_entry_point_count_together(capture: Capture) -> None:
    found = capture(
        """
        def f(x):
            if x.shape[0] > 4:
                return x + 1
            return x * 2
        """,
        BATCHED,
    )
    f = by_name(found.program.entry_points["f"].coverage)["f"]
    assert (f.traced, f.lines) == (3, 3)
    assert lines_of(found.program.entry_points["f"])["f"].missed == ()


def test_retraced_function_counts_for_each_entry_point(capture: Capture) -> None:
    found = capture(
        """
        @jax.jit
        def shared(x):
            return x + 1

        def step(carry, row):
            return carry + row, row

        def f(x):
            return jax.lax.scan(step, x[0], shared(x))

        def g(x):
            return jax.lax.scan(step, x[0], shared(x))
        """,
        TWO,
    )
    for name in ("f", "g"):
        functions = by_name(found.program.entry_points[name].coverage)
        assert {n: (c.lines, c.traced) for n, c in functions.items()} == {
            "shared": (1, 1),
            "step": (1, 1),
            name: (1, 1),
        }


def test_what_runs_at_import_or_for_fixtures_is_not_traced(capture: Capture) -> None:
    found = capture(
        """
        def table():
            return np.ones(4, "float32")

        TABLE = table()

        def f(x):
            return x + TABLE
        """
    )
    assert set(by_name(found.program.entry_points["f"].coverage)) == {"f"}


def test_branches_that_run_time_decides_are_counted_apart(capture: Capture) -> None:
    found = capture(
        """
        def f(x):
            y = jax.lax.cond(x[0] > 0, lambda: x, lambda: -x)
            z = jax.lax.switch(0 + (x[1] > 0), [jnp.sin, jnp.cos, jnp.tan], y)
            w = jax.lax.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, z)
            return jax.lax.scan(lambda c, r: (c + r, r), w[0], w)
        """
    )
    flow = found.program.entry_points["f"].profiles[0].control_flow
    assert (flow.conditionals, flow.branches, flow.whiles, flow.scans) == (2, 5, 1, 1)
    assert flow.equations > 10
    assert by_name(found.program.entry_points["f"].coverage)["f.<locals>.<lambda>"].traced == 1


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('def f(x):\n    """Words."""\n    y = x\n    return y\n', {3, 4}),
        ("def f(x): return x\n", {1}),
        ("@staticmethod\ndef f(x):\n    return (\n        x\n    )\n", {3, 4}),
        ("def f(x):\n    a = 1\n    return lambda: a + x\n", {2, 3}),
        ("def f():\n    pass\n", {2}),
    ],
)
def test_lines_of_a_function_are_those_of_its_body(source: str, lines: set[int]) -> None:
    namespace: dict[str, object] = {}
    exec(dedent(source), namespace)
    function = inspect.unwrap(cast(FunctionType, namespace["f"]))
    assert code_lines(function.__code__) == lines


def test_nothing_is_recorded_outside_of_the_block(tmp_path: Path) -> None:
    namespace: dict[str, Callable[[], None]] = {}
    source = "def first():\n    return None\n\ndef second():\n    return None\n"
    exec(compile(source, str(tmp_path / "own.py"), "exec"), namespace)
    with recording(tmp_path) as seen:
        namespace["first"]()
    namespace["second"]()
    with recording(tmp_path) as again:
        namespace["second"]()
    for found, name in ((seen, "first"), (again, "second")):
        assert [f.name for f in found.coverage()[0].files["own.py"]] == [name]


ONE = """
def a(x):
    if x:
        return 1
    return 2

def f(x):
    return (lambda y: y + a(1))(x) + (lambda y: y * 2)(x)
"""

SAME = """
# A comment.

def f(x):
    # Another.
    return (lambda y: y + a(1))(x) + (lambda y: y * 2)(x)

def a(x):
    if x:
        return 1
    # And another.
    return 2
"""


def test_moved_code_changes_lines_and_not_the_evidence(tmp_path: Path) -> None:
    found = []
    for source in (ONE, SAME):
        namespace: dict[str, Callable[[int], int]] = {}
        exec(compile(source, str(tmp_path / "own.py"), "exec"), namespace)
        with recording(tmp_path) as seen:
            namespace["f"](3)
        found.append(seen.coverage())
    (first, first_lines), (second, second_lines) = found
    assert first == second
    assert [(f.name, f.traced, f.lines) for f in first.files["own.py"]] == [
        ("a", 2, 3),
        ("f", 1, 1),
        ("f.<locals>.<lambda>", 1, 1),
    ]
    assert [(f.line, f.missed) for f in first_lines["own.py"]] == [(2, ("5",)), (7, ()), (8, ())]
    assert [(f.line, f.missed) for f in second_lines["own.py"]] == [(8, ("12",)), (4, ()), (6, ())]
