"""Every element type, in and out, as weights and as a fixture."""

from pathlib import Path

import jax_free
import numpy as np
import pytest
from jax_free import Arrays
from small_programs import build_signed

from aotc_runtime import LoadedBundle
from aotc_runtime.schema.bundle_manifest import DType
from tests.conftest import Bundle, Once, manifest_of

PROGRAM = """
import jax.numpy as jnp

def flip(x):
    return {name: jnp.flip(value, 0) for name, value in x.items()}

def weights():
    return {
        "int4": jnp.arange(-4, 4).astype(jnp.int4),
        "uint4": jnp.arange(9).astype(jnp.uint4),
        "complex128": jnp.arange(5) * (1 + 2j),
        "float8_e3m4": jnp.arange(5).astype(jnp.float8_e3m4),
    }

def shift(w, by):
    return {
        "int4": (w["int4"].astype(jnp.int32) + by).astype(jnp.int4),
        "uint4": w["uint4"],
        "complex128": w["complex128"] * by,
        "float8_e3m4": w["float8_e3m4"],
    }
"""

HEADER = manifest_of("""
name = "dtypes"
enable_x64 = true

[weights.w]
init = "program:weights"

[entry_points.shift]
function = "program:shift"
bind = { w = "w" }
inputs.by = { shape = [], dtype = "int32" }
fixtures.ranges = { by = [1, 1] }

[entry_points.flip]
function = "program:flip"
""")

ELEMENTS = 7


def manifest() -> str:
    """An input of each dtype; integers need a range."""
    inputs = [f'inputs.x.{d} = {{ shape = [{ELEMENTS}], dtype = "{d}" }}' for d in DType]
    ranges = [f'"x/{d}" = [{0 if d[0] == "u" else -8}, 7]' for d in DType if "int" in d]
    return "\n".join([HEADER, *inputs, "[entry_points.flip.fixtures.ranges]", *ranges])


@pytest.fixture(scope="module")
def bundle(once: Once) -> Bundle:
    folder = once("dtypes", lambda folder: build_signed(folder, "dtypes", PROGRAM, manifest()))
    return folder / "dtypes.aotb", folder / "trust.toml"


def call_every_way(bundle: LoadedBundle, _: Arrays) -> Arrays:
    import ml_dtypes

    flip = bundle["flip"]
    generator = np.random.default_rng(0)
    x = {}
    for leaf in flip.spec.inputs:
        name = leaf.dtype.value
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        values = generator.normal(size=7) + 1j if dtype.kind == "c" else generator.integers(0, 7, 7)
        x[name] = values.astype(dtype)
    for result in (flip(x), flip.on_device(x)):
        for name, value in x.items():
            array = np.asarray(result[name])
            assert array.dtype == value.dtype, name
            assert array.tobytes() == value[::-1].tobytes(), name
    back = flip(flip.on_device(x))
    assert all(back[name].tobytes() == value.tobytes() for name, value in x.items())
    shifted = bundle["shift"](2)
    return {"count": np.array(len(x)), **{k: v.astype(complex) for k, v in shifted.items()}}


def test_every_dtype_goes_in_and_out_unchanged(bundle: Bundle, tmp_path: Path) -> None:
    outputs, _ = jax_free.run(call_every_way, bundle, tmp_path, {})
    assert outputs["count"] == len(DType)
    assert outputs["int4"].tolist() == list(range(-2, 6))
    assert outputs["uint4"].tolist() == list(range(9))
    assert outputs["complex128"].tolist() == [n * (2 + 4j) for n in range(5)]
    assert outputs["float8_e3m4"].tolist() == list(range(5))
