"""Shardings of what only the capture knows: weights, structures of functions, results."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.base.errors import BuildManifestError
from aotc.capture.call_arguments import FlatCall, flat_call, plan_call
from aotc.capture.traced_shardings import ArrayShardings, shardings_of, weight_shardings
from aotc.capture.weight_sets import Weights
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc_runtime.base.errors import Finding
from tests.conftest import manifest_of

PROGRAM = """
import jax.numpy as jnp

def state(n):
    return {"moment": jnp.zeros((n, 6)), "count": jnp.zeros((), "int32")}

def step(params, state, keys):
    return state["moment"] @ params["w"], keys
"""

MANIFEST = manifest_of("""\
name = "m"
mesh = { data = 2, model = 3 }

[weights.params]
init = "NAME:weights"
shardings = { WEIGHTS }

[dimensions.n]
range = [2, 8]
profiles = [2, 8]

[entry_points.step]
function = "NAME:step"
bind = { params = "params" }
inputs.state = { like = "NAME:state", arguments = { n = "n" } }
inputs.keys = { shape = [4], dtype = "key<fry>" }

[entry_points.step.shardings]
inputs = { INPUTS }
outputs = { OUTPUTS }
""")

WEIGHTS = {
    "params": Weights(
        "init", {"w": jax.ShapeDtypeStruct((6, 4), jnp.float32)}, {"w": np.zeros((6, 4), "f4")}
    )
}

type Make = Callable[..., BuildManifest]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def manifest(weights: str = "", inputs: str = "", outputs: str = "") -> BuildManifest:
        name = f"program_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(PROGRAM)
        text = MANIFEST.replace("WEIGHTS", weights).replace("INPUTS", inputs)
        text = text.replace("OUTPUTS", outputs).replace("NAME", name)
        (tmp_path / "m.toml").write_text(text)
        return read_build_manifest(tmp_path / "m.toml")

    return manifest


def sharded(manifest: BuildManifest) -> tuple[ArrayShardings, FlatCall]:
    plan = plan_call("step", manifest)
    calls = [(flat_call(plan, WEIGHTS, manifest, {"n": n}), {"n": n}) for n in (2, 8)]
    found = shardings_of(manifest, "step", weight_shardings(manifest, WEIGHTS), calls)
    assert found is not None
    return found, calls[0][0]


def refusal(manifest: BuildManifest) -> tuple[str, str, Finding]:
    """Code, place and the rest of what is refused."""
    with pytest.raises(BuildManifestError) as caught:
        found, call = sharded(manifest)
        found.of_outputs(jax.eval_shape(call, *(leaf.data for leaf in call.leaves)), {"n": 2})
    (finding,) = caught.value.findings
    return finding.code, finding.where.rpartition("m.toml:")[2], finding


def test_every_leaf_gets_its_sharding_and_keys_keep_their_words_together(make: Make) -> None:
    found, call = sharded(
        make(
            'w = ["model", []]',
            '"state/mo*" = ["data", "model"], keys = ["data"]',
            '0 = ["data", []]',
        )
    )
    assert found.weights == {"params": {"w": (("model",), ())}}
    given = {leaf.owner + "/" + leaf.path: leaf for leaf in call.leaves if not leaf.is_weight}
    assert found.of_input("state/moment", given["state/moment"].aval) == (("data",), ("model",))
    assert found.of_input("state/count", given["state/count"].aval) == ()
    assert found.of_input("keys", given["keys/"].aval) == (("data",), ())
    result = jax.eval_shape(call, *(leaf.data for leaf in call.leaves))
    assert found.of_outputs(result, {"n": 2}) == [(("data",), ()), ()]


@pytest.mark.parametrize(
    ("tables", "code", "where", "found"),
    [
        ({"weights": 'v = ["data", []]'}, "AOTC-E806", "9 weights.params.shardings.v", '"v"'),
        (
            {"weights": 'w = [[], "model"]'},
            "AOTC-E814",
            "9 weights.params.shardings.w",
            "w with shape [6, 4]",
        ),
        (
            {"inputs": '"state/moments" = ["data", []]'},
            "AOTC-E806",
            '22 entry_points.step.shardings.inputs."state/moments"',
            '"state/moments"',
        ),
        (
            {"inputs": '"state/moment" = ["model", []]'},
            "AOTC-E814",
            '22 entry_points.step.shardings.inputs."state/moment"',
            "state/moment with shape [2, 6] at step[n=2]",
        ),
        (
            {"inputs": 'keys = ["data"], "key*" = [[]]'},
            "AOTC-E807",
            '22 entry_points.step.shardings.inputs."key*"',
            'keys, which "keys" matches too',
        ),
        (
            {"outputs": '0 = ["data"]'},
            "AOTC-E814",
            "23 entry_points.step.shardings.outputs.0",
            "[data] for 0 with shape [2, 4] at step[n=2]",
        ),
        (
            {"outputs": "result = []"},
            "AOTC-E806",
            "23 entry_points.step.shardings.outputs.result",
            '"result"',
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(
    make: Make, tables: dict[str, str], code: str, where: str, found: str
) -> None:
    refused = refusal(make(**tables))
    assert refused[:2] == (code, where)
    assert refused[2].found == found
