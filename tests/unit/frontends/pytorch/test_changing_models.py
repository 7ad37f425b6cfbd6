"""Models that their calls change: what changes is an argument and a result, step by step as torch
has it.
"""

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc.frontends.pytorch.pytorch_frontend import PyTorch
from tests.frontends.pytorch.steps import follow, initial
from tests.refusals import error_of
from tests.unit.frontends.pytorch.test_hostile_files import changed, code, graph, members, zipped
from tests.unit.frontends.pytorch.test_written_files import FILES, read

BOTH = ("", ".decomposed")


@pytest.mark.parametrize("suffix", BOTH)
@pytest.mark.parametrize("name", ["counter", "writes_input", "trained", "cache"])
def test_three_calls_change_a_model_as_they_change_torchs(name: str, suffix: str) -> None:
    model = read(name + suffix)
    far = follow(model, FILES / f"{name}{suffix}.npz")
    assert far < 1e-6
    assert any(each.changes for each in model.inputs)


@pytest.mark.parametrize("suffix", BOTH)
def test_states_are_inputs_with_their_values_in_the_file(suffix: str) -> None:
    model = read(f"cache{suffix}")
    assert [each.name for each in model.inputs] == [
        *("x", "position", "state/decay", "state/keys", "state/last", "state/steps")
    ]
    assert [each.changes for each in model.inputs] == [False, False, True, True, True, True]
    assert set(model.weights) == {"bias"}
    states = initial(model)
    assert states["keys"].shape == (1, 4, 3) and not states["keys"].any()
    assert (states["steps"], states["steps"].dtype) == (2, jnp.int32)
    assert "state/steps" in model.narrowed
    wide = read(f"cache{suffix}", enable_x64=True)
    assert {each.name: each.dtype for each in wide.inputs}["state/steps"] == np.int64
    assert all(each.initial is None or each.initial.dtype == each.dtype for each in wide.inputs)


@pytest.mark.parametrize("suffix", BOTH)
def test_an_input_that_is_written_comes_back_by_its_name(suffix: str) -> None:
    model = read(f"writes_input{suffix}")
    ((name, changes, value),) = [(x.name, x.changes, x.initial) for x in model.inputs]
    assert (name, changes, value) == ("x", True, None)
    made = model.function({}, jnp.asarray([-1.0, 2.0]))
    assert made.keys() == {"result", "inputs"}
    assert made["inputs"]["x"].tolist() == [0, 2] and made["result"].tolist() == [1, 3]


@pytest.mark.parametrize("signature", ["initial_state", "model:initial_state"])
def test_the_state_before_the_first_call_is_a_function_of_the_file(signature: str) -> None:
    model = read("cache", signature=signature)
    assert model.inputs == () and set(model.weights) == {"decay"}, "the others are made, not stored"
    made = jax.jit(model.function)(dict(model.weights))
    expected = initial(read("cache"))
    assert made.keys() == expected.keys()
    for key, value in expected.items():
        assert made[key].dtype == value.dtype and np.array_equal(made[key], value)
    assert model.narrowed == ("steps",)


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("tied", "initial_state"),
        ("writes_input", "initial_state"),
        ("cache", "other:initial_state"),
        ("cache", "initial"),
        ("cache", ":initial_states"),
    ],
)
def test_a_signature_without_such_a_state_is_refused(name: str, signature: str) -> None:
    assert error_of(CaptureError, read, name, signature=signature).code == "AOTC-E845"


def test_a_buffer_in_the_memory_of_another_is_refused_by_both_names() -> None:
    caught = error_of(CaptureError, read, "aliased")
    ((code, found),) = [(each.code, each.found) for each in caught.findings]
    assert code == "AOTC-E844"
    assert "'whole'" in found and "'part'" in found


def outputs(document: Any) -> Any:
    return document["graph_module"]["signature"]["output_specs"]


def specs(document: Any) -> Any:
    return document["graph_module"]["signature"]["input_specs"]


def first_tensor(document: Any) -> Any:
    """Return what the graph knows of its first output."""
    name = graph(document)["outputs"][0]["as_tensor"]["name"]
    return graph(document)["tensor_values"][name]


def becomes(spec: Any) -> Callable[[Any], object]:
    """Say of the first output that it is something else."""
    return lambda document: outputs(document).__setitem__(0, spec)


def twice(document: Any) -> None:
    outputs(document).append(outputs(document)[0])
    graph(document)["outputs"].append(graph(document)["outputs"][0])


def without_meta(document: Any) -> None:
    del graph(document)["tensor_values"]["b_count"]


def exchanged(document: Any) -> None:
    names = [spec["arg"] for each in specs(document) for spec in each.values()]
    given = names[1]["as_tensor"]
    names[0]["name"], given["name"] = given["name"], names[0]["name"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("counter.decomposed", becomes({"buffer_mutation": {"arg": {}, "buffer_name": "other"}})),
        (
            "counter.decomposed",
            becomes({"parameter_mutation": {"arg": {}, "parameter_name": "count"}}),
        ),
        (
            "counter.decomposed",
            becomes({"user_input_mutation": {"arg": {}, "user_input_name": "b_count"}}),
        ),
        ("counter.decomposed", becomes({"loss_output": {"arg": {"name": "add"}}})),
        ("counter.decomposed", becomes({"of_a_later_version": {}})),
        ("counter.decomposed", twice),
        ("counter.decomposed", lambda d: first_tensor(d).update(sizes=[{"as_int": 3}])),
        ("counter.decomposed", lambda d: first_tensor(d).update(dtype=8)),
        ("counter.decomposed", lambda d: graph(d)["outputs"].__setitem__(0, {"as_int": 1})),
        ("counter.decomposed", without_meta),
        ("counter", without_meta),
        ("counter", exchanged),
    ],
)
def test_new_values_that_cannot_be_are_refused(name: str, change: Callable[[Any], object]) -> None:
    assert code(changed("models/model.json", change, name)) == "AOTC-E843"


@pytest.mark.parametrize("name", ["co/unt", "größe"])
def test_a_state_whose_name_no_input_can_have_is_refused(name: str) -> None:
    def renamed(document: Any) -> None:
        document["config"][name] = document["config"].pop("count")

    parts = members(changed("data/weights/model_weights_config.json", renamed, "counter"))
    document = json.loads(parts["models/model.json"])
    specs(document)[0]["buffer"]["buffer_name"] = name
    parts["models/model.json"] = json.dumps(document).encode()
    assert code(zipped(parts)) == "AOTC-E844"


def test_an_input_called_state_keeps_its_name() -> None:
    def rename(document: Any) -> None:
        text = json.dumps(document).replace('"x"', '"state"')
        document.clear()
        document.update(json.loads(text))

    data = changed("models/model.json", rename, "counter")
    model = PyTorch().read(ModelFile("named.pt2", data, None, lambda _: b"", False))
    assert [each.name for each in model.inputs] == ["state", "state_/count"]
    made = model.function({}, jnp.ones(2), jnp.ones(2))
    assert made["state_"]["count"].tolist() == [2, 2]
