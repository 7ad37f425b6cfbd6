"""The recipes in docs/build-manifest.md: models of Equinox and Flax NNX, as weights from `init`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from capturing import Capture

from aotc.capture.weights import read_arrays

PAGE = (Path(__file__).parents[3] / "docs" / "build-manifest.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
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
def test_a_file_that_the_recipe_saved_has_the_names_of_the_model(
    capture: Capture, library: str, tmp_path: Path
) -> None:
    (save,) = [block for block in BLOCKS if "def save(" in block]
    program = f"{recipe(library)}\n{save}\nsave(init(), {str(tmp_path / 'p.safetensors')!r})\n"
    manifest = MANIFEST.format(source='source = "p.safetensors"')
    outcome = capture(program, manifest, files={"p.safetensors": b"written on import"})
    assert outcome.program.weights == {"params": "source"}
    (stored,) = outcome.staging.weights("params")
    assert all(name.count("/") for name in read_arrays(stored))
