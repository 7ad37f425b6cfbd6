"""Small models that torch wrote, read and run without torch, against what torch returned."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.frontends.pytorch.operators import FAMILIES
from aotc.frontends.pytorch.pytorch_frontend import PyTorch
from aotc.frontends.pytorch.torch_results import input_paths
from aotc.frontends.pytorch.torch_schema import CallSignature
from tests.frontends.pytorch.recorded import apart, named
from tests.refusals import error_of

FILES = Path(__file__).parent / "files"


def read(name: str, *, enable_x64: bool = False, signature: str | None = None) -> Model:
    data = (FILES / f"{name}.pt2").read_bytes()
    return PyTorch().read(ModelFile(f"{name}.pt2", data, signature, lambda _: b"", enable_x64))


def call(model: Model, name: str, suffix: str = "") -> float:
    """Return how far the model's results are from torch's at most."""
    recorded = np.load(FILES / f"{name}.npz")
    given = [
        jnp.asarray(recorded[key]).astype(jax.dtypes.canonicalize_dtype(spec.dtype))
        for key, spec in zip(
            sorted(key for key in recorded if key.startswith(f"in{suffix}/")),
            model.inputs,
            strict=True,
        )
    ]
    found = named(jax.jit(model.function)(dict(model.weights), *given))
    wanted = {
        key.partition("/")[2]: recorded[key] for key in recorded if key.startswith(f"out{suffix}/")
    }
    assert found.keys() == wanted.keys()
    return max(apart(np.asarray(found[key]), wanted[key]) for key in wanted)


@pytest.mark.parametrize(
    "name",
    [
        *("convolutions", "convolutions.decomposed", "tied", "recurrent", "branch", "writes"),
        *("sizes", "mean", "no_grad", "quantized", "daily", "related", "nested"),
    ],
)
def test_a_model_returns_what_torch_returned(name: str) -> None:
    assert call(read(name), name) < 1e-6


@pytest.mark.parametrize("name", ["solves", "solves.decomposed"])
def test_linear_algebra_returns_what_torch_returned(name: str) -> None:
    assert call(read(name), name) < 1e-5


def test_steps_belong_to_modules_and_lines_of_the_model() -> None:
    layers = read("convolutions").layers
    assert {"first", "norm", "last"} <= layers.keys()
    (line,) = layers["first"]
    assert "_files.py:" in line and line.endswith("relu_(self.norm(self.first(image)))")


@pytest.mark.parametrize(
    "name", ["convolutions", "convolutions.decomposed", "branch", "sizes", "related"]
)
def test_a_model_returns_what_torch_returned_for_other_sizes_and_branches(name: str) -> None:
    assert call(read(name), name, "1") < 1e-6


def test_bfloat16_stays_bfloat16() -> None:
    model = read("low")
    assert {array.dtype for array in model.weights.values()} == {jnp.dtype(jnp.bfloat16)}
    assert model.inputs[0].dtype == jnp.bfloat16
    assert call(model, "low") < 2**-8


def test_names_are_those_of_the_state_dict_and_of_the_results() -> None:
    model = read("convolutions")
    assert set(model.weights) == {
        f"{layer}.{name}" for layer in ("first", "norm", "last") for name in ("weight", "bias")
    } | {"norm.running_mean", "norm.running_var"}, "num_batches_tracked is not used"
    assert [each.name for each in model.inputs] == ["image"]
    assert model.producer["framework"] == "PyTorch"
    nested = ["batch/image", "batch/mask", "scale/0", "past/0"]
    assert [each.name for each in read("nested").inputs] == nested


@pytest.mark.parametrize(
    ("keys", "arguments", "found"),
    [
        (["a", "b"], ["x"], {"x_a": "x/a", "x_b": "x/b"}),
        (["b", "a"], ["x"], {}),
        (["a", "b"], ["y"], {}),
        (["a", "b"], None, {}),
        (["a"], ["x"], {}),
    ],
    ids=["named", "other order", "other argument", "no names", "other structure"],
)
def test_nested_inputs_have_paths_that_fit_the_graphs_names(
    keys: list[str], arguments: list[str] | None, found: dict[str, str]
) -> None:
    leaf, kind = {"type": None, "context": None, "children_spec": []}, "builtins.dict"
    given = {"type": kind, "context": json.dumps(keys), "children_spec": [leaf] * len(keys)}
    args = {"type": "builtins.tuple", "context": "null", "children_spec": [given]}
    kwargs = {"type": kind, "context": "[]", "children_spec": []}
    spec = {"type": "builtins.tuple", "context": "null", "children_spec": [args, kwargs]}
    call = CallSignature("", json.dumps([1, spec]), arguments and tuple(arguments))
    assert input_paths(call, ["x_a", "x_b"], {}) == found


def test_an_axis_that_varies_has_the_files_symbol_and_its_range() -> None:
    model = read("convolutions")
    (symbol, *fixed) = model.inputs[0].shape
    assert fixed == [2, 6, 6]
    assert model.ranges == {symbol: (1, 32)}


def test_sizes_may_be_dimensions_of_jax() -> None:
    model = read("sizes")
    n, m = jax.export.symbolic_shape("n, m", constraints=["n >= 2", "m >= 2"])
    given = [jax.ShapeDtypeStruct((n, m), jnp.float32)] * 2
    caught = error_of(CaptureError, jax.export.export(jax.jit(model.function)), {}, *given)
    assert caught.code == "AOTC-E844", "a fraction of sizes that vary"
    assert "export with fixed sizes" in str(caught.findings[0].hint)
    convolutions = read("convolutions")
    weights = {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in convolutions.weights.items()}
    (batch,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(convolutions.function))(
        weights, jax.ShapeDtypeStruct((batch, 2, 6, 6), jnp.float32)
    )
    assert [str(aval.shape[0]) for aval in exported.out_avals] == ["b", "b"]


def test_sizes_other_than_the_files_are_refused() -> None:
    model = read("convolutions")
    with pytest.raises(CaptureError) as caught:
        jax.eval_shape(model.function, dict(model.weights), jnp.zeros((2, 2, 6, 7)))
    assert caught.value.code == "AOTC-E846"
    sizes = read("sizes")
    with pytest.raises(CaptureError) as caught:
        jax.eval_shape(sizes.function, {}, jnp.zeros((3, 4)), jnp.zeros((4, 4)))
    assert caught.value.code == "AOTC-E846", "axes of one symbol are of one size"


def test_tied_weights_are_stored_once_and_long_integers_narrowed() -> None:
    model = read("tied")
    assert set(model.weights) == {"head.weight", "positions"}
    assert model.weights["positions"].dtype == np.int32
    assert model.inputs[0].dtype == np.int64, "as the file has it"
    assert model.narrowed == ("ids", "positions")


def test_with_64_bit_types_nothing_is_narrowed() -> None:
    model = read("tied", enable_x64=True)
    assert model.weights["positions"].dtype == np.int64
    assert model.narrowed == ()
    with jax.enable_x64(True):
        assert call(model, "tied") < 1e-6
        assert call(read("hashed", enable_x64=True), "hashed") < 1e-6
        assert call(read("doubled", enable_x64=True), "doubled") < 1e-15


def refused(name: str, **options: Any) -> list[tuple[str, str]]:
    caught = error_of(CaptureError, read, name, **options)
    assert {finding.code for finding in caught.findings} == {"AOTC-E844"}
    return [(finding.where, finding.found) for finding in caught.findings]


def test_64_bit_values_that_do_not_fit_are_refused_all_at_once() -> None:
    found = " ".join(text for _, text in refused("doubled"))
    assert "'weight' is float64" in found
    assert "'large' is int64, with values beyond int32" in found
    assert "makes float64" in found


def test_what_is_not_had_is_refused_at_once_with_the_lines_of_the_model() -> None:
    found = refused("refused")
    assert len(found) == 3
    by_operator = {text.partition(":")[0]: (where, text) for where, text in found}
    random, dropout = by_operator["aten.rand_like.default"], by_operator["aten.dropout.default"]
    assert "random numbers" in random[1] and "(and 1 more)" in random[0]
    assert "dropout in training" in dropout[1]
    assert "_files.py:" in dropout[0] and "torch.dropout(x, 0.5, True)" in dropout[0]
    assert "no operator of this frontend" in by_operator["aten.special_airy_ai.default"][1]


def test_another_signature_than_the_files_is_refused() -> None:
    assert error_of(CaptureError, read, "tied", signature="other").code == "AOTC-E845"
    assert read("tied", signature="model").weights


def test_no_operator_is_in_two_families() -> None:
    names = [name for family in FAMILIES for name, _ in family]
    assert len(names) == len(set(names))
    assert {"aten.add.Tensor", "aten.lstm.input"} <= set(names)


def test_a_table_of_64_bits_becomes_one_of_32_and_is_told() -> None:
    model = read("daily")
    assert model.weights["table"].dtype == np.int32
    assert "table" in model.narrowed
