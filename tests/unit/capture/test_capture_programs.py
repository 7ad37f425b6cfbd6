"""Finding the function, matching its parameters, and what its own errors come to."""

import functools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capturing import ONE_INPUT, Capture, key_path

from aotc.base.errors import CaptureError
from aotc.capture.import_program import resolve, text_of
from tests.refusals import error_of

LEAF = '{ shape = [4], dtype = "float32" }'


def manifest(function: str = "program:f", *lines: str) -> str:
    return "\n".join([f'[entry_points.f]\nfunction = "{function}"', *lines, ""])


@pytest.mark.parametrize(
    ("function", "source", "title", "found"),
    [
        ("nowhere:f", "", "module not found", "nowhere"),
        ("program.inner:f", "", "module not found", "program.inner"),
        ("program:g", "def f(x): return x\ndef _h(): ...", "function not found", "g"),
        ("program:f.g", "def f(x): return x", "function not found", "f.g"),
        ("program:f", "f = 3", "name is not a function", "int"),
        (
            "program:f",
            "import missing_module",
            "dependency is not installed",
            "missing_module, imported at program.py:5",
        ),
        ("program:f", "1 / 0", "module failed to import", "ZeroDivisionError"),
        ("program:f", "import sys\nsys.exit(0)", "module failed to import", "SystemExit"),
        ("program:f", "x = 1\ndef f(x:", "module failed to import", "never closed at program.py:6"),
        (
            "program:f",
            "import ast\nast.parse('(', 'other.py')",
            "module failed to import",
            "never closed at other.py:1",
        ),
        ("program:f", "compile('(', '<text>', 'exec')", "module failed to import", "program.py:5"),
    ],
)
def test_a_function_that_cannot_be_found_is_refused(
    capture: Capture, function: str, source: str, title: str, found: str
) -> None:
    refusal = capture(source, manifest(function, f"inputs.x = {LEAF}")).refusal
    assert refusal.code == "AOTC-E820"
    assert key_path(refusal) == "entry_points.f.function"
    assert refusal.title == title
    assert found in refusal.found


@pytest.mark.parametrize(
    ("backend", "hint"),
    [
        ("tensorflow", "set KERAS_BACKEND=jax in the environment of the build"),
        ("h5pyx", "install h5pyx in the environment that runs `aotc build`"),
    ],
)
def test_keras_backend_hint(capture: Capture, tmp_path: Path, backend: str, hint: str) -> None:
    """As keras 3.15 does: it imports what its default backend needs, far below its `__init__`."""
    package = tmp_path / "keras" / "src"
    package.mkdir(parents=True)
    (tmp_path / "keras" / "__init__.py").write_text("from keras.src import tree\n")
    (package / "__init__.py").touch()
    (package / "tree.py").write_text(f"from {backend}.python.trackable import ListWrapper\n")
    refusal = capture("import keras\ndef f(x): return x\n").refusal
    assert refusal.code == "AOTC-E820"
    assert refusal.found.startswith(backend)
    assert refusal.hint.startswith(hint)


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("deploy/src", "app.model"),
        ("src", "app.model"),
        (".", "app.model"),
        ("src", "app"),
        ("src", "single"),
    ],
)
def test_a_module_in_a_likely_place_is_found_for_who_forgot_to_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, module: str
) -> None:
    (tmp_path / "deploy").mkdir()
    package = tmp_path / folder / "app"
    package.mkdir(parents=True)
    for file in (package / "__init__.py", package / "model.py", tmp_path / folder / "single.py"):
        file.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    caught = error_of(CaptureError, resolve, f"{module}:f", tmp_path / "deploy", "FUNCTION")
    (finding,) = caught.findings
    assert finding.hint.startswith(f"it is in {folder}: set PYTHONPATH={folder},")
    caught = error_of(CaptureError, resolve, "app.other:f", tmp_path / "deploy", "FUNCTION")
    assert caught.findings[0].hint.startswith("create app/other.py beside the manifest")


@pytest.mark.parametrize(
    "source",
    [
        "np.load('data/gone.npy')\ndef f(x): return x",
        "def f(x): return x\ndef init(): return {'w': np.load('data/gone.npy')}",
    ],
)
def test_relative_program_path_is_told_its_start(capture: Capture, source: str) -> None:
    bound = 'bind = { p = "p" }\n[weights.p]\ninit = "program:init"' if "init" in source else ""
    source = source.replace("f(x)", "f(p, x)") if bound else source
    refusal = capture(source, manifest("program:f", f"inputs.x = {LEAF}\n{bound}")).refusal
    assert "FileNotFoundError" in refusal.found
    assert refusal.hint.startswith("a program's relative paths start at the current folder, /")


def test_a_module_whose_name_is_taken_is_refused(capture: Capture) -> None:
    files = {"types.py": b"def f(x): return x"}
    refusal = capture("", manifest("types:f", f"inputs.x = {LEAF}"), files=files).refusal
    assert refusal.code == "AOTC-E820"
    assert "types.py" in refusal.expected and "rename" in refusal.hint


@pytest.mark.parametrize(
    ("definition", "where", "named"),
    [
        ("def f(x, y): return x", "entry_points.f", "y"),
        ("def f(x, *, y): return x", "entry_points.f", "y"),
        ("def f(x, y, /): return x", "entry_points.f", "y"),
        ("def f(): return 1", "entry_points.f.inputs.x", "x"),
        ("def f(*x): return x", "entry_points.f.inputs.x", "x"),
        ("import functools\nf = functools.partial(lambda x: x, 3)", "entry_points.f.inputs.x", "x"),
        ("def f(**named): return named['x']", "entry_points.f.inputs.x", "x"),
        ("def f(*a, **named): return a", "entry_points.f.inputs.x", "x"),
    ],
)
def test_parameters_must_match(capture: Capture, definition: str, where: str, named: str) -> None:
    refusal = capture(definition, ONE_INPUT).refusal
    assert (refusal.code, key_path(refusal)) == ("AOTC-E821", where)
    assert named in refusal.expected + refusal.found


def test_a_misspelt_input_is_told_at_its_line(capture: Capture) -> None:
    misspelt = (
        ONE_INPUT.replace("inputs.x", "inputs.imgae") + "fixtures.ranges = { image = [0, 1] }"
    )
    _, unknown = capture("def f(image): return image", misspelt).findings
    assert (key_path(unknown), unknown.hint) == (
        "entry_points.f.inputs.imgae",
        "did you mean `image`?",
    )
    ranges = capture(
        "def f(x): return x", f"{ONE_INPUT}fixtures.ranges = {{ y = [0, 1] }}", name="b"
    )
    assert (ranges.refusal.code, key_path(ranges.refusal)) == (
        "AOTC-E806",
        "entry_points.f.fixtures.ranges.y",
    )


def test_static_and_defaulted_parameters_are_recorded_with_their_values(capture: Capture) -> None:
    lines = [f"inputs.x = {LEAF}", 'static = { mode = "fast", sizes = [1, 2] }']
    source = "def f(x, mode, sizes, scale=2.0): return x * scale"
    captured = capture(source, manifest("program:f", *lines)).f
    assert captured.static == {"mode": "'fast'", "sizes": "[1, 2]", "scale": "2.0"}


def test_a_program_without_weights_or_inputs_is_captured(capture: Capture) -> None:
    captured = capture("def f(): return jnp.ones(3)", manifest()).f
    assert (captured.parameters, captured.inputs, captured.bound) == ((), (), {})


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom at program.py:6"),
        ("return x @ jnp.ones((3, 3))", "at program.py:6"),
        ("return y", "NameError"),
        ("return {x: 1}", "TypeError"),
        ("return jax.lax.psum(x, 'i')", "NameError"),
        ("import sys; sys.exit(0)", "SystemExit"),
    ],
)
def test_program_error_is_quoted_with_line(capture: Capture, body: str, found: str) -> None:
    refusal = capture(f"def f(x):\n    {body}\n").refusal
    assert refusal.code == "AOTC-E829"
    assert "x float32[4]" in refusal.expected
    assert found in refusal.found
    assert re.search(r"\.toml:\d+ entry_points\.f\.inputs;", refusal.hint)


def test_an_array_kept_from_the_trace_of_another_profile_is_refused(capture: Capture) -> None:
    batched = """
        [dimensions.batch]
        range = [1, 8]
        profiles = [1, 8]
        [entry_points.f]
        function = "program:f"
        inputs.x = { shape = ["batch"], dtype = "float32" }
    """
    source = "KEPT = []\ndef f(x):\n    KEPT.append(x)\n    return KEPT[0] + 1"
    refusal = capture(source, batched).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E829", "f[batch=8]")


def test_the_sources_of_the_program_are_recorded_by_relative_path(capture: Capture) -> None:
    outcome = capture("import other\ndef f(x): return x", files={"other.py": b"ONE = 1\n"})
    assert set(outcome.program.sources) == {"program.py", "other.py"}


def test_inputs_of_a_function_that_fails_are_named_with_their_paths(capture: Capture) -> None:
    outcome = capture(
        "def init(): return [jnp.ones(3)] * 6\ndef f(params, batch, *, scale): return 1 / 0",
        """
        [weights.w]
        init = "program:init"
        [entry_points.f]
        function = "program:f"
        bind = { params = "w" }
        [entry_points.f.inputs]
        batch.image = { shape = [2, 4], dtype = "float32" }
        batch.masks = [{ shape = [], dtype = "bool" }, { shape = [3], dtype = "bool" }]
        scale = { shape = [], dtype = "bfloat16" }
        """,
    )
    assert outcome.refusal.expected == (
        "a trace with params: 6 tensors, batch/image float32[2,4], batch/masks/0 bool[], "
        "batch/masks/1 bool[3], scale bfloat16[]"
    )


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"),
        ("a", "'a'"),
        (None, "None"),
        ((1, "b", [True]), "(1, 'b', [True])"),
        (np.tanh, "numpy.tanh"),
        (Thing, f"{__name__}.Thing"),
        (Thing(), f"a {__name__}.Thing"),
        (functools.partial(print, 1), "a functools.partial"),
        (np.float32, "numpy.float32"),
    ],
)
def test_a_value_has_one_text(value: Any, text: str) -> None:
    assert text_of(value) == text
