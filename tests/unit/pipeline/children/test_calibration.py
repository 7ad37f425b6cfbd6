"""Static scales: the largest factors in calls of the evaluation data."""

from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.base.evidence import Calibration
from aotc.base.stages import CapturedEntryPoint, CapturedProfile
from aotc.capture.portable_stablehlo import portable
from aotc.compile.precision.activations import unit_of
from aotc.config.build_manifest import read_build_manifest
from aotc.pipeline.children import calibration
from aotc.pipeline.children.calibration import Calibrator
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import DType, InputArgument, TensorSpec, WeightArgument
from tests.conftest import manifest_of
from tests.refusals import error_of

MANIFEST = manifest_of("""
name = "f"
weights.params.init = "program:params"
dimensions.batch = { range = [1, 4], profiles = [1, 4] }
dimensions.length = { range = [1, 8], profiles = [4, 8] }
[entry_points.f]
function = "program:f"
bind = { w = "params", v = "params" }
inputs.x = { shape = ["batch", "length", 8], dtype = "float32" }
inputs.mask = { shape = ["length"], dtype = "bool" }
out_of_profile.length = { policy = "pad", mask = "mask" }
[entry_points.f.evaluation]
data = "data.npz"
metric = "rmse"
""")
SHAPES = {"w": (8, 4), "v": (4, 3)}
ARRAYS = {name: np.full(shape, 0.125, np.float32) for name, shape in SHAPES.items()}
NAMES = [("params", "w"), ("params", "v")]


def f(w: Any, v: Any, x: Any, mask: Any) -> Any:
    return ((1 - x) @ w * mask[:, None]).sum(1) @ v


def captured(*sizes: tuple[int, int]) -> CapturedEntryPoint:
    profiles = []
    for batch, length in sizes:
        shapes = (batch, length, 8), (length,)
        given = np.ones(shapes[0], np.float32), np.ones(shapes[1], np.bool_)
        module = jax.jit(lambda *given: f(*given)).lower(*ARRAYS.values(), *given)
        profiles.append(
            CapturedProfile(
                sizes={"batch": batch, "length": length},
                input_shapes=shapes,
                output_shapes=((batch, 3),),
                arguments=(
                    *(WeightArgument(set=owner, tensor=name) for owner, name in NAMES),
                    *(InputArgument(leaf=0, aliased=False), InputArgument(leaf=1, aliased=False)),
                ),
                module=portable(module.compiler_ir("stablehlo")),
            )
        )
    return CapturedEntryPoint(
        *("f", "program:f", ()),
        inputs=(
            TensorSpec(
                path="x", shape=("batch", "length", 8), dtype=DType.FLOAT32, weak_type=False
            ),
            TensorSpec(path="mask", shape=("length",), dtype=DType.BOOL, weak_type=False),
        ),
        result=cast(Any, None),
        outputs=(TensorSpec(path="", shape=("batch", 3), dtype=DType.FLOAT32, weak_type=False),),
        dimensions=("batch", "length"),
        bound={},
        static={},
        lifted=(),
        profiles=tuple(profiles),
    )


def calibrated(folder: Path, x: Any, *sizes: tuple[int, int]) -> Calibration:
    (folder / "m.toml").write_text(MANIFEST)
    np.savez(folder / "data.npz", x=x, target=np.zeros((len(x), 3), np.float32))
    read = read_build_manifest(folder / "m.toml")
    tensor = dict(zip(NAMES, ARRAYS.values(), strict=True)).__getitem__
    found = Calibrator(read, folder, {}, cast(Any, None), tensor)
    return found.calibrate(captured(*sizes), NAMES)


@pytest.mark.parametrize("sizes", [[(1, 4), (4, 4)], [(1, 8), (4, 8)], [(1, 8), (4, 4)]])
def test_smaller_samples_fill_a_profile_and_masks_are_the_loaders(
    sizes: list[tuple[int, int]], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).uniform(0.5, 1, (5, 3, 8)).astype(np.float32)
    x[4] = 0.25
    made = calibrated(tmp_path, x, *sizes)
    assert (made.samples, made.data) == (5, sha256((tmp_path / "data.npz").read_bytes()))
    largest = (1 - x).max(), ((1 - x) @ ARRAYS["w"]).sum(1).max()
    for name, most in zip(SHAPES, largest, strict=True):
        assert float(made.units[f"params {name}"]) == pytest.approx(most / 127.5, rel=1e-6)


def test_only_the_first_samples_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SAMPLES_MAX", 4)
    x = np.full((9, 4, 8), 0.5, np.float32)
    x[4:] = 0
    made = calibrated(tmp_path, x, (1, 4), (4, 4))
    assert (made.samples, made.units["params w"]) == (4, repr(float(np.float32(0.5 / 127.5))))


def test_factors_without_numbers_have_the_scale_1() -> None:
    assert (unit_of(0), unit_of(1e-18), unit_of(255)) == (1.0, 1.0, 2.0)


@pytest.mark.parametrize(("value", "length"), [(np.nan, 4), (np.inf, 4), (1, 9)])
def test_samples_that_calibrate_nothing_are_refused(
    value: float, length: int, tmp_path: Path
) -> None:
    x = np.full((2, length, 8), value, np.float32)
    assert error_of(CaptureError, calibrated, tmp_path, x, (1, 4), (1, 8)).code == "AOTC-E847"
