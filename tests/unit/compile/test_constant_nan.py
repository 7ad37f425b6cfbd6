"""`exp` of a NaN that XLA's compiler knows: found, and kept from XLA's kernel."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.capture.portable_stablehlo import portable as portable_module
from aotc.compile.mlir import mlir_context
from aotc.compile.worker_results import Problem, Result
from aotc.compile.xla import constant_nan, cpu_artifact_compiler
from aotc.compile.xla.xla_job import Job
from aotc_runtime.schema.bundle_manifest import Target
from tests.unit.conftest import portable

type Function = Callable[[jax.Array, jax.Array], jax.Array]

MASK = np.arange(5).reshape(5, 1, 1) % 2 == 0
NUMBERS = np.full((5, 8, 1), 0.5, np.float32)


def masked(mask: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.where(mask, x, jnp.asarray(jnp.nan, x.dtype))


KNOWN: dict[str, Function] = {
    "softmax over one": lambda m, x: jax.nn.softmax(jnp.where(m, x, -jnp.inf), axis=-1),
    "softmax over one, by log_softmax": lambda m, x: jnp.exp(
        jax.nn.log_softmax(jnp.where(m, x, jnp.inf), axis=-1)
    ),
    "NaN": lambda m, x: jnp.exp(masked(m, x)),
    "zero by zero": lambda m, x: jnp.exp(jnp.where(m, x, 0) / jnp.where(m, x, 0)),
    "infinity times zero": lambda m, x: jnp.exp(jnp.where(m, x, jnp.inf) * jnp.where(m, x, 0)),
    "logarithm of a negative number": lambda m, x: jnp.exp(jnp.log(jnp.where(m, x, -1))),
    "float16": lambda m, x: jnp.exp(masked(m, x.astype(jnp.float16))),
    "sigmoid": lambda m, x: jax.nn.sigmoid(masked(m, x)),
    "exp2": lambda m, x: jnp.exp2(masked(m, x)),
    "cosh": lambda m, x: jnp.cosh(masked(m, x)),
    "sinh": lambda m, x: jnp.sinh(masked(m, x)),
    "erfc": lambda m, x: jax.lax.erfc(masked(m, x)),
}

UNKNOWN: dict[str, Function] = {
    "softmax over many": lambda m, x: jax.nn.softmax(jnp.where(m, x, -jnp.inf), axis=1),
    "no constants": lambda m, x: jax.nn.softmax(x, axis=-1) + m,
    "a large negative number": lambda m, x: jax.nn.softmax(jnp.where(m, x, -1e30), axis=-1),
    "finite": lambda m, x: jnp.exp(jnp.where(m, x, 0) * 2 + 1),
}


def compiled(function: Function, v3: Target) -> Result:
    lowered = jax.jit(function).trace(MASK, NUMBERS).lower(lowering_platforms=("cpu",))
    job = Job(
        artifact=portable_module(lowered.compiler_ir("stablehlo")).artifact,
        triple=v3.triple,
        cpu=v3.cpu,
        features=v3.features,
        tuning=v3.tuning,
        options=dict(v3.options),
        threads=v3.threads,
        devices=(0,),
        constants=b"",
    )
    return cpu_artifact_compiler.compile_job(job, randomized=True, own_threads=True)


def optimized(function: Function) -> str:
    return str(jax.jit(function).lower(MASK, NUMBERS).compile().as_text())


@pytest.mark.parametrize("name", KNOWN)
def test_known_nan_finds_arguments_that_are_nan(name: str) -> None:
    assert constant_nan.known_nan(optimized(KNOWN[name]))


@pytest.mark.parametrize("name", UNKNOWN)
def test_known_nan_passes_arguments_known_only_at_run_time(name: str) -> None:
    assert not constant_nan.known_nan(optimized(UNKNOWN[name]))


HLO: dict[str, tuple[list[str], bool]] = {
    "a constant": (["%a = f32[] constant(nan)"], True),
    "another constant": (["%a = f32[] constant(1)"], False),
    "a parameter": (["%a = f32[] parameter(0)"], False),
    "a slice of constants": (
        ["%c = f32[2]{0} constant({1, nan})", "%a = f32[1]{0} slice(%c), slice={[1:2]}"],
        True,
    ),
    "an iota by itself": (
        ["%i = f32[4]{0} iota(), iota_dimension=0", "%a = f32[4]{0} divide(%i, %i)"],
        True,
    ),
    "an iota": (["%a = f32[4]{0} iota(), iota_dimension=0"], False),
    "a selection": (
        [
            "%p = pred[] parameter(0)",
            "%x = f32[] parameter(1)",
            "%c = f32[] constant(nan)",
            "%a = f32[] select(%p, %x, %c)",
        ],
        True,
    ),
    "an operation": (["%c = f32[] constant(-1)", "%a = f32[] log(%c)"], True),
    "an operation of numbers": (["%c = f32[] constant(2)", "%a = f32[] log(%c)"], False),
    "an unknown operation of a constant": (["%c = f32[] constant(2)", "%a = f32[] erf(%c)"], True),
    "an unknown operation of a parameter": (
        ["%c = f32[] parameter(0)", "%a = f32[] erf(%c)"],
        False,
    ),
    "a comparison": (
        ["%c = f32[] constant(nan)", "%a = f32[] compare(%c, %c), direction=EQ"],
        False,
    ),
    "as many constants as are followed": (
        [f"%a = f32[64]{{0}} constant({{{', '.join(map(str, range(64)))}}})"],
        False,
    ),
    "more constants than are followed": (
        [f"%a = f32[65]{{0}} constant({{{', '.join(map(str, range(65)))}}})"],
        True,
    ),
}


@pytest.mark.parametrize("name", HLO)
def test_known_nan_follows_constants_of_each_instruction(name: str) -> None:
    lines, is_known = HLO[name]
    body = "\n".join(f"  {line}" for line in [*lines, "ROOT %e = f32[] exponential(%a)"])
    found = constant_nan.known_nan(f"ENTRY %main () -> f32[] {{\n{body}\n}}\n")
    assert found == (("e",) if is_known else ())


@pytest.mark.parametrize("name", KNOWN)
def test_compile_keeps_known_nan_from_exp(name: str, v3: Target) -> None:
    result = compiled(KNOWN[name], v3)
    assert not result.problem
    assert "exponential" in result.hlo_text
    assert not constant_nan.known_nan(result.hlo_text)


def test_compile_rejects_unguarded_nan(v3: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_nan, "guard", lambda module: 0)
    result = compiled(KNOWN["NaN"], v3)
    assert result.problem is Problem.PROGRAM
    assert constant_nan.WORDS in result.words


def test_guard_accepts_sizes_known_only_at_run_time() -> None:
    module = mlir_context.read_artifact(
        portable(
            "module @aotc { func.func public @main(%x: tensor<?x3xbf16>) -> tensor<?x3xbf16> {"
            " %y = stablehlo.exponential %x : tensor<?x3xbf16> return %y : tensor<?x3xbf16> } }"
        )
    )
    constant_nan.guard(module)
    assert "stablehlo.select" in str(module)
    assert module.operation.verify()
