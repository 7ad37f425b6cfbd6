"""The proof is proven: wrong answers that engines gave are noticed by the trials of a build, on
inputs that it makes by itself.

Each fault stands in the executable alone: XLA compiles another module in place of the program's,
which computes what the engine computed. No other engine is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from msgspec.structs import replace

from aotc.base.errors import ParityError
from aotc.base.stages import CompileJob
from aotc.capture import jax_private
from aotc.capture.portable_stablehlo import portable
from aotc.compile.xla import xla_compiler as xla_compile
from aotc.compile.xla.xla_job import Job
from aotc.pipeline.build import build
from tests.conftest import manifest_of

FLOAT, INTEGER = "float32", "int32"

MANIFEST = manifest_of("""
name = "program"
enable_x64 = {x64}
[entry_points.f]
function = "program:f"
{inputs}
{more}
""")


@dataclass(frozen=True)
class Fault:
    """A program, and what an engine made of it. source: of `f`.  wrong: the same with the fault.
    shapes: of its inputs, by name.  kinds: of inputs, of which one has to show it.
    """

    name: str
    source: str
    wrong: Callable[..., Any]
    shapes: dict[str, tuple[int, ...]]
    kinds: tuple[str, ...]
    dtypes: dict[str, str] = field(default_factory=dict)
    more: str = ""

    @property
    def is_wide(self) -> bool:
        """Return whether it computes in float64."""
        return "float64" in self.dtypes.values()


MEAN = np.float32([101325.0, 2024.0, 1.7e9, 273.15])
DEVIATION = np.float32([5.0, 0.5, 86400.0, 0.01])


def _fused_standardize(x: Any) -> Any:
    scale = lax.optimization_barrier(jnp.asarray(1 / DEVIATION))
    return x * scale + lax.optimization_barrier(jnp.asarray(-MEAN / DEVIATION))


def _masked_softmax(x: Any) -> Any:
    most = jnp.max(jnp.where(jnp.isfinite(x), x, -1e30), -1, keepdims=True)
    weights = jnp.where(jnp.isfinite(x), jnp.exp(x - most), 0)
    total = weights / weights.sum(-1, keepdims=True)
    return jnp.where(jnp.isfinite(x), total, x * jnp.nan)


def _forgetful_maximum(scores: Any, owner: Any) -> Any:
    def turn(number: Any, best: Any) -> Any:
        held, score = best[owner[number]], scores[number]
        return best.at[owner[number]].set(jnp.where(held > score, held, score))

    return lax.fori_loop(0, scores.size, turn, jnp.full((4,), -1e9, scores.dtype))


def _norm_without_epsilon(x: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True))


def _norm_of_a_whole_epsilon(x: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def _one_accumulator(image: Any) -> Any:
    flat = image.reshape(-1, 64)
    total = lax.scan(lambda held, row: (held + row, None), jnp.zeros(64, image.dtype), flat)[0]
    return lax.scan(lambda held, each: (held + each, None), jnp.float32(0), total)[0] / image.size


def _flipped(x: Any) -> Any:
    return lax.scan(lambda held, row: (held + row, held + row), jnp.zeros(4, x.dtype), x)[1]


FAULTS = (
    Fault(
        "A2 a reversed result is not reversed",
        "def f(x):\n    return lax.scan(lambda h, r: (h + r, h + r), jnp.zeros(4), x)[1][::-1]\n",
        _flipped,
        {"x": (8, 4)},
        ("other", "offset"),
    ),
    Fault(
        "A3 a constant is moved through a product",
        "MEAN = np.float32([101325.0, 2024.0, 1.7e9, 273.15])\n"
        "DEVIATION = np.float32([5.0, 0.5, 86400.0, 0.01])\n"
        "def f(x):\n    return (x - MEAN) / DEVIATION\n",
        _fused_standardize,
        {"x": (8, 4)},
        ("magnitudes",),
    ),
    Fault(
        "A4 softmax leaves NaN and infinities out",
        "def f(x):\n    return jax.nn.softmax(x, axis=-1)\n",
        _masked_softmax,
        {"x": (3, 4)},
        ("nan", "infinite"),
    ),
    Fault(
        "A5 a power is a square root",
        "def f(x):\n    return x ** 0.5\n",
        jnp.sqrt,
        {"x": (5,)},
        ("infinite",),
    ),
    Fault(
        "A6 a maximum by index forgets NaN",
        "def f(scores, owner):\n"
        "    return jnp.full((4,), -1e9, scores.dtype).at[owner].max(scores)\n",
        _forgetful_maximum,
        {"scores": (6,), "owner": (6,)},
        ("nan",),
        {"owner": INTEGER},
        "[entry_points.f.fixtures]\nranges = { owner = [0, 3] }",
    ),
    Fault(
        "A7 an epsilon of float64 is lost",
        "def f(x):\n    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-300)\n",
        _norm_without_epsilon,
        {"x": (2, 3)},
        ("extreme",),
        {"x": "float64"},
    ),
    Fault(
        "A8 a converted constant keeps its value from before",
        "def f(x):\n"
        "    epsilon = jnp.float32(jnp.int32(1e-6))\n"
        "    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + epsilon)\n",
        _norm_of_a_whole_epsilon,
        {"x": (4, 4)},
        ("magnitudes", "extreme"),
    ),
    Fault(
        "A9 a long sum has one accumulator",
        "def f(image):\n    return jnp.mean(image)\n",
        _one_accumulator,
        {"image": (1024, 1024)},
        ("offset",),
    ),
)


def _written(fault: Fault, folder: Path, more: str = "") -> Path:
    head = "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jax import lax\n\n"
    (folder / "program.py").write_text(head + fault.source)
    inputs = "\n".join(
        f'inputs.{name} = {{ shape = {list(shape)}, dtype = "{fault.dtypes.get(name, FLOAT)}" }}'
        for name, shape in fault.shapes.items()
    )
    x64 = str(fault.is_wide).lower()
    text = MANIFEST.format(inputs=inputs, more=f"{more}\n{fault.more}", x64=x64)
    (folder / "program.toml").write_text(text)
    return folder / "program.toml"


def _compiling(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have XLA compile the fault in place of the program."""
    with jax.enable_x64(fault.is_wide):
        avals = [
            jax.ShapeDtypeStruct(shape, fault.dtypes.get(name, FLOAT))
            for name, shape in fault.shapes.items()
        ]
        lowered = jax.jit(fault.wrong, keep_unused=True).lower(*avals)
        artifact = portable(jax_private.static_module(lowered)).artifact
    made = xla_compile.request_of

    def request(job: CompileJob) -> Job:
        return replace(made(job), artifact=artifact)

    monkeypatch.setattr(xla_compile, "request_of", request)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_wrong_answer_found(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = _written(fault, tmp_path)
    _compiling(fault, monkeypatch)
    with pytest.raises(ParityError) as caught:
        build(manifest, output=tmp_path / "program.aotb")
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E951"
    assert any(kind in finding.where or kind in finding.found for kind in fault.kinds)
    assert "tolerance`" not in finding.hint
    assert not (tmp_path / "program.aotb").exists()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_right_answer_is_accepted(fault: Fault, tmp_path: Path) -> None:
    build(_written(fault, tmp_path), output=tmp_path / "program.aotb")


def _positive_sum(x: Any) -> Any:
    return jnp.where(x <= 0, 0, x).sum((2, 3))


KEEPING = (
    Fault(
        "NaN in a maximum that is added up",
        "def f(x):\n    return jnp.maximum(x, 0).sum((2, 3))\n",
        _positive_sum,
        {"x": (2, 1024, 2, 2)},
        ("nan",),
    ),
    Fault(
        "numbers that float32 cannot hold, on the way to a maximum",
        "def f(x):\n    return jnp.maximum(x * 4 - abs(x) * 3, 0).sum((2, 3))\n",
        lambda x: _positive_sum(x * 4 - abs(x) * 3),
        {"x": (2, 1024, 2, 2)},
        ("extreme",),
    ),
)
"""Programs of which plain JAX loses NaN: YNNPACK, which adds up for XLA, has other maxima."""


@pytest.mark.parametrize("keeping", KEEPING, ids=[each.name for each in KEEPING])
def test_kept_nan_is_fine(keeping: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = _written(keeping, tmp_path)
    _compiling(keeping, monkeypatch)
    build(manifest, output=tmp_path / "program.aotb")


def test_finite_numerics_skip_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = (each for each in FAULTS if each.name.startswith("A4"))
    manifest = _written(fault, tmp_path, 'numerics = "finite"')
    _compiling(fault, monkeypatch)
    built = build(manifest, output=tmp_path / "program.aotb")
    (stated,) = built.bundle.manifests.values()
    assert stated.entry_points["f"].numerics == "finite"
