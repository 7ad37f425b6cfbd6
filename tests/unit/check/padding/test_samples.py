"""Inputs that trials have beside the fixture's."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

from aotc.check.padding.trial_run import Array
from aotc.check.padding.trial_samples import sampled
from aotc.config.build_manifest import EntryPointSpec, FixtureSpec, InputLeaf
from aotc.config.manifest_specs import ToleranceSpec
from aotc_runtime.schema.bundle_manifest import DType, Pad, TensorSpec

type Tensors = tuple[TensorSpec, ...]


def tensor(path: str, shape: tuple[int | str, ...], dtype: DType = DType.FLOAT32) -> TensorSpec:
    return TensorSpec(path=path, dtype=dtype, shape=shape, weak_type=False)


def at_five_rows(each: TensorSpec) -> Array:
    shape = tuple(axis if isinstance(axis, int) else 5 for axis in each.shape)
    dtype = ml_dtypes.bfloat16 if each.dtype is DType.BFLOAT16 else each.dtype.value
    return np.ones(shape, dtype)


def numbers(
    tensors: Tensors,
    sample: str,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    fill: Mapping[str, str] | None = None,
    held: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """A sample of these inputs at five rows; `mask` is the loader's."""
    spec = EntryPointSpec(
        function="m:f",
        bind={},
        inputs={each.path: InputLeaf(each.shape, each.dtype) for each in tensors},
        static={},
        donate=(),
        profiles=(),
        relations=(),
        policies={"rows": Pad(fill=fill or {}, mask="mask", length="", proof=())},
        tolerance=ToleranceSpec(rtol=1e-5, atol=0.0),
        fixtures=FixtureSpec(file=None, seed=0, ranges=ranges or {}),
    )
    inputs = held or {each.path: at_five_rows(each) for each in tensors}
    return sampled(inputs, tensors, spec, sample)


@pytest.mark.parametrize("sample", ["low", "high"])
@pytest.mark.parametrize("shape", [(), (2,), ("rows",), ("rows", 2), (2, "2*rows")])
def test_an_integer_holds_the_edge_of_its_range(sample: str, shape: tuple[int | str, ...]) -> None:
    edge = {"low": 3, "high": 1003}[sample]
    array = numbers((tensor("pos", shape, DType.INT32),), sample, {"pos": (3, 1003)})["pos"]
    first = tuple(slice(None) if isinstance(axis, int) else 0 for axis in shape)
    assert (array[first] == edge).all()
    assert ((array <= 503) == (sample == "low")).all()


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [((-1, 1), {-1}, {1}), ((-2, 2), {-2, -1}, {1, 2}), ((0, 1), {0}, {1}), ((0, 0), {0}, {0})],
)
def test_zero_is_in_neither_half(bounds: tuple[int, int], low: set[int], high: set[int]) -> None:
    inputs = (tensor("x", ("rows", 40), DType.INT32),)
    assert set(numbers(inputs, "low", {"x": bounds})["x"].ravel().tolist()) == low
    assert set(numbers(inputs, "high", {"x": bounds})["x"].ravel().tolist()) == high


@pytest.mark.parametrize(("sample", "sign"), [("mixed", 1), ("reversed", -1)])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.INT32])
def test_low_and_high_numbers_take_turns(sample: str, sign: int, dtype: DType) -> None:
    inputs = (
        tensor("s", (), dtype),
        tensor("mask", ("rows",), DType.BOOL),
        tensor("d", ("rows", 3), dtype),
        tensor("e", (2, "rows", 2), dtype),
    )
    ranges = dict.fromkeys("sde", (-9, 9)) if dtype is DType.INT32 else {}
    found = {
        path: np.sign(array.astype(np.float32)) * sign
        for path, array in numbers(inputs, sample, ranges).items()
        if path != "mask"
    }
    assert found["d"].tolist() == [[-1, 1, -1]] * 5
    assert found["e"].tolist() == [[[1, -1]] * 5, [[-1, 1]] * 5]
    assert found["s"].tolist() == -1


def test_what_the_loader_passes_stays() -> None:
    inputs = (tensor("mask", ("rows",), DType.BOOL), tensor("x", ("rows",)))
    assert numbers(inputs, "mixed")["mask"].all()


@pytest.mark.parametrize(("fill", "value"), [({}, True), ({"keep": "True"}, False)])
def test_high_booleans_hold_what_padding_does_not(fill: Mapping[str, str], value: bool) -> None:
    keep = tensor("keep", ("rows",), DType.BOOL)
    drawn = np.array([True, False, True, False, False])
    high = numbers((keep,), "high", fill=fill, held={"keep": drawn})["keep"]
    assert (high == value).all()
