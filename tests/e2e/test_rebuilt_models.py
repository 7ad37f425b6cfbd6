"""A second build of a model file only traces it, and no result outlives a change of the file."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from aotc.base.errors import CaptureError
from tests.e2e.rebuilt_models import Rebuilt, packages, ran

PT2 = Path(__file__).parents[1] / "unit" / "frontends" / "pytorch" / "files" / "branch.pt2"
W = np.random.default_rng(3).normal(size=(8, 5)).astype(np.float32)
ANEW = {"capture", "reference", "executable f for cpu-x86-64-v3", "parity of cpu-x86-64-v3", "pack"}


def exported() -> export.Exported:
    x = jax.ShapeDtypeStruct((4, 8), jnp.float32)
    return export.export(jax.jit(lambda x: jax.nn.relu(x @ W)))(x)


FIRST = W.tobytes()[:8]


def test_second_build_only_traces_until_a_byte_changes(tmp_path: Path) -> None:
    model = Rebuilt(tmp_path, "model.jax", exported().serialize())
    first = model.build()
    assert ran(first).keys() == ANEW
    assert "flatbuffers" in packages(first)
    assert ran(model.build()).keys() == {"capture", "pack"}
    model.replace(model.file, FIRST, FIRST[:-1] + b"\x3f")
    changed = model.build()
    assert ran(changed)["capture"] == ("file model.jax changed",)
    assert changed.bundle.root_digest != first.bundle.root_digest
    model.tighten()
    assert "parity of cpu-x86-64-v3" in ran(model.build())


def test_damaged_pytorch_archive_is_read_again_not_from_cache(tmp_path: Path) -> None:
    model = Rebuilt(tmp_path, "model.pt2", PT2.read_bytes())
    assert ran(model.build()).keys() == ANEW
    assert ran(model.build()).keys() == {"capture", "pack"}
    data = bytearray(model.file.read_bytes())
    data[len(data) // 2] ^= 1
    model.file.write_bytes(data)
    with pytest.raises(CaptureError):
        model.build()
