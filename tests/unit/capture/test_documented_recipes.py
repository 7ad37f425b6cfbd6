"""The recipes in build-manifest.md: models of Equinox and Flax NNX, as weights from `init`,
and recording results.
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from capturing import Capture

from aotc.check.trial_records import read_arrays
from tests.documented import blocks_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "build-manifest.md"
BLOCKS = [block.code for block in blocks_of(PAGE) if block.language == "python"]
MODELS = {"equinox": "Equinox", "flax": "Flax NNX"}

MANIFEST = """
[weights.params]
init = "program:init"
{source}
[dimensions.batch]
range = [1, 64]
profiles = [1, 8]
[entry_points.f]
function = "program:predict"
bind = {{ params = "params" }}
inputs.image = {{ shape = ["batch", 64], dtype = "float32" }}
"""


def recipe(library: str) -> str:
    pytest.importorskip(library)
    (block,) = [block for block in BLOCKS if f"with {MODELS[library]}\n" in block]
    return block


@pytest.mark.parametrize("library", MODELS)
def test_the_arrays_of_a_model_are_its_weights(capture: Capture, library: str) -> None:
    outcome = capture(recipe(library), MANIFEST.format(source=""))
    assert outcome.program.weights == {"params": "init"}
    assert outcome.f.outputs[0].shape == ("batch", 10)
    assert outcome.f.lifted == ()


@pytest.mark.parametrize("library", MODELS)
def test_recipe_file_has_the_models_names(capture: Capture, library: str, tmp_path: Path) -> None:
    (save,) = [block for block in BLOCKS if "def save(" in block]
    program = f"{recipe(library)}\n{save}\nsave(init(), {str(tmp_path / 'p.safetensors')!r})\n"
    manifest = MANIFEST.format(source='source = "p.safetensors"')
    outcome = capture(program, manifest, files={"p.safetensors": b"written on import"})
    assert outcome.program.weights == {"params": "source"}
    (stored,) = outcome.scratch.weights("params")
    assert all(name.count("/") for name in read_arrays(stored))


RECORDED = """
[dimensions.batch]
range = [1, 16]
profiles = [8, 16]
[entry_points.f]
function = "program:f"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
fixtures = { file = "inputs.npz", results = "results.npz" }
"""


@pytest.mark.parametrize(
    ("function", "source", "paths"),
    [
        (lambda x: jnp.sin(x), "def f(x): return jnp.sin(x)", [""]),
        (
            lambda x: {"a": [x.sum(), x.astype(jnp.bfloat16)]},
            "def f(x): return {'a': [x.sum(), x.astype(jnp.bfloat16)]}",
            ["a/0", "a/1"],
        ),
    ],
    ids=["an array", "a tree"],
)
def test_results_that_the_recipe_recorded_have_the_names_of_the_function(
    capture: Capture, tmp_path: Path, function: Any, source: str, paths: list[str]
) -> None:
    (block,) = [block for block in BLOCKS if "def record(" in block]
    names: dict[str, Any] = {}
    exec(block, names)
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    np.savez(tmp_path / "inputs.npz", x=x)
    names["record"](function, x, tmp_path / "results.npz")
    outcome = capture(source, RECORDED)
    for index, rows in enumerate((8, 16)):
        found = read_arrays(outcome.results(index))
        expected = names["results"](function, {"x": x[:rows]})
        assert sorted(found) == paths
        for path, array in found.items():
            assert array.tobytes() == expected[path or "result"].tobytes()
