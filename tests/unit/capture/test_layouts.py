"""Weights of model files whose axes are stored in the order that XLA reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capturing import Capture, Outcome
from jax import export, lax

from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc.capture.weight_sets import read_shards
from aotc.frontends.pytorch.pytorch_frontend import PyTorch

TORCH = Path(__file__).parents[1] / "frontends" / "pytorch" / "files" / "convolutions.pt2"
W = np.random.default_rng(5).normal(size=(3, 4, 2, 5)).astype(np.float32)
"""(out, in, height, width)"""

BATCHED = """
[dimensions.n]
range = [1, 4]
profiles = [1, 4]

[entry_points.f]
source = "convolutions.pt2"
inputs.image = { shape = ["n", 2, 6, 6] }
"""


def stored(outcome: Outcome, name: str = "f") -> dict[str, np.ndarray[Any, Any]]:
    return read_shards(outcome.scratch.weights(name))


def conv(x: Any, w: Any) -> Any:
    return lax.conv(x, w, (1, 1), "VALID")


def exported(function: Callable[[Any], Any], suffix: str) -> bytes:
    made = export.export(jax.jit(function))(jax.ShapeDtypeStruct((1, 4, 6, 6), jnp.float32))
    return bytes(made.serialize()) if suffix == "jax" else made.mlir_module_serialized


def captured(capture: Capture, *functions: Callable[[Any], Any], suffix: str = "mlirbc") -> Outcome:
    """Entry points f0, f1, … of images over one weights set, each a file: of modules, which are
    read without jax, unless the suffix is another.
    """
    files = {f"f{i}.{suffix}": exported(each, suffix) for i, each in enumerate(functions)}
    entries = [
        f'[entry_points.{name.partition(".")[0]}]\nsource = "{name}"\nweights = "f"'
        for name in files
    ]
    return capture("", "\n".join(entries), files=files)


def orders(outcome: Outcome, name: str = "f0") -> list[tuple[int, ...]]:
    model = outcome.program.entry_points[name].model
    assert model is not None
    return list(model.orders.values())


def test_the_kernel_of_a_convolution_is_stored_as_xla_reads_it(capture: Capture) -> None:
    outcome = capture("", BATCHED, files={"convolutions.pt2": TORCH.read_bytes()})
    file = PyTorch().read(ModelFile("f.pt2", TORCH.read_bytes(), None, lambda _: b"", False))
    found = stored(outcome)
    assert found.keys() == file.weights.keys(), "names are those of the file"
    assert found["first.weight"].shape == (3, 3, 2, 4)
    for name, array in file.weights.items():
        expected = array.transpose(2, 3, 1, 0) if name == "first.weight" else array
        assert np.array_equal(found[name], expected)
    assert outcome.f.model is not None
    assert outcome.f.model.orders == {"first.weight": (2, 3, 1, 0)}


def test_files_of_jax_export_have_it_too(capture: Capture) -> None:
    outcome = captured(capture, lambda x: conv(x, W), suffix="jax")
    assert orders(outcome) == [(2, 3, 1, 0)]
    (array,) = stored(outcome).values()
    assert np.array_equal(array, W.transpose(2, 3, 1, 0))


def twice(x: Any) -> Any:
    return conv(x, jnp.asarray(W)) + conv(-x, jnp.asarray(W))


def within_a_function(x: Any) -> Any:
    return jax.jit(conv)(x, jnp.asarray(W))


def of_another_dtype(x: Any) -> Any:
    return conv(x.astype(jnp.bfloat16), jnp.asarray(W).astype(jnp.bfloat16))


def turned(x: Any) -> Any:
    return conv(x, jnp.asarray(W).transpose(0, 1, 3, 2))


def added(x: Any) -> Any:
    return x.sum() + jnp.asarray(W).transpose(3, 0, 2, 1)


def another_use(x: Any) -> Any:
    return conv(x, jnp.asarray(W)) + jnp.asarray(W).sum()


def turned_in_two_ways(x: Any) -> Any:
    return conv(x, jnp.asarray(W)).sum() + conv(x, jnp.asarray(W).transpose(0, 1, 3, 2)).sum()


def product(x: Any) -> Any:
    return lax.dot_general(jnp.asarray(W).transpose(0, 2, 1, 3), x, (((2,), (1,)), ((), ())))


def as_it_lies(x: Any) -> Any:
    numbers = ("NCHW", "HWIO", "NCHW")
    return lax.conv_general_dilated(
        x[:, :2], jnp.asarray(W), (1, 1), "VALID", dimension_numbers=numbers
    )


def convolved_with(x: Any) -> Any:
    return conv(jnp.asarray(W), x[:, :, :1, :1])


@pytest.mark.parametrize(
    ("function", "order"),
    [
        (twice, (2, 3, 1, 0)),
        (within_a_function, (2, 3, 1, 0)),
        (of_another_dtype, (2, 3, 1, 0)),
        (turned, (3, 2, 1, 0)),
        (added, (3, 0, 2, 1)),
        (another_use, None),
        (turned_in_two_ways, None),
        (product, None),
        (as_it_lies, None),
        (convolved_with, None),
    ],
)
def test_a_weight_is_stored_as_all_of_its_uses_want_it(
    capture: Capture, function: Callable[[Any], Any], order: tuple[int, ...] | None
) -> None:
    outcome = captured(capture, function)
    assert orders(outcome) == ([] if order is None else [order])
    (array,) = stored(outcome).values()
    assert np.array_equal(array, W.transpose(order or (0, 1, 2, 3)))


def test_what_entry_points_share_is_stored_as_all_of_them_want_it(capture: Capture) -> None:
    outcome = captured(capture, twice, within_a_function)
    assert orders(outcome) == orders(outcome, "f1") == [(2, 3, 1, 0)]
    assert len(stored(outcome)) == 1, "once"


def test_weights_wanted_in_several_orders_stay_as_in_files(capture: Capture) -> None:
    outcome = captured(capture, twice, another_use)
    assert orders(outcome) == orders(outcome, "f1") == []
    (array,) = stored(outcome).values()
    assert np.array_equal(array, W)


@pytest.mark.parametrize(
    "header", ['engines = ["iree", "xla"]\n', 'target.cpu-x86-64-v3.engines = ["iree"]\n']
)
def test_for_other_engines_nothing_is_stored_otherwise(capture: Capture, header: str) -> None:
    files = {"convolutions.pt2": TORCH.read_bytes()}
    outcome = capture("", BATCHED, header=header, files=files)
    assert outcome.f.model is not None and outcome.f.model.orders == {}
    assert stored(outcome)["first.weight"].shape == (4, 2, 3, 3)
