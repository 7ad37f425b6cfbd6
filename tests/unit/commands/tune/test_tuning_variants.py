"""A host measures only code that it can run: the default first, nothing that the target decides."""

from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

from aotc.commands.tune.tuning_service import Measure
from aotc.commands.tune.tuning_variants import (
    CAPTURED_BYTES_MAX,
    PACKED_BYTES_MAX,
    candidates_for,
    why_unsuited,
)
from aotc.compile.cpu.cpu_kind import CANDIDATES
from aotc.pipeline.build_tuning import untuned_targets
from aotc_runtime.schema.bundle_manifest import Target

HOST = Target(
    name="native",
    platform="cpu",
    triple="x86_64-unknown-linux-gnu",
    cpu="znver5",
    features=("avx", "avx2"),
    tuning=(),
    threads=2,
    options={},
)
NOWHERE = msgspec.structs.replace(HOST, name="nowhere", features=("amx-tile", "sse2", "xop"))
"""Intel's and AMD's own, which no processor has together."""


def test_missing_features_and_other_architectures_are_named() -> None:
    wanted = msgspec.structs.replace(HOST, features=("avx", "avx512f", "amx-tile"))
    assert why_unsuited(wanted, HOST) == "its processor lacks amx-tile, avx512f"
    arm = msgspec.structs.replace(HOST, triple="aarch64-unknown-linux-gnu")
    assert why_unsuited(arm, HOST) == "it is cpu x86_64"


def test_suited_ignores_who_compiles_and_needs_a_processor() -> None:
    assert why_unsuited(msgspec.structs.replace(HOST, platform="iree"), HOST) == ""
    gpu = msgspec.structs.replace(HOST, platform="cuda", features=())
    assert why_unsuited(gpu, HOST) == "it is cpu x86_64"


def test_of_several_targets_those_this_host_cannot_run_stay_as_they_are() -> None:
    anywhere = msgspec.structs.replace(HOST, name="anywhere", features=("sse2",))
    assert list(untuned_targets(Measure(), [NOWHERE, anywhere])) == ["nowhere"]
    assert untuned_targets(None, [NOWHERE]) == {}


OF_XLA = CANDIDATES


def names(
    options: dict[str, str], weight_bytes: int, platform: str = "cpu", *, narrow: bool = False
) -> list[str]:
    target = msgspec.structs.replace(HOST, options=options, platform=platform)
    return [c.name for c in candidates_for(target, weight_bytes=weight_bytes, narrow=narrow)]


def test_the_default_comes_first_then_options_by_name_then_captured_weights_by_name() -> None:
    every = names({}, CAPTURED_BYTES_MAX, narrow=True)
    assert every[0] == "default" and len(set(every)) == len(every) == len(OF_XLA)
    bound = [c.name for c in OF_XLA[1:] if not c.captures]
    captured = [c.name for c in OF_XLA[1:] if c.captures]
    assert every[1:] == sorted(bound) + sorted(captured)
    assert not OF_XLA[0].options and not OF_XLA[0].captures


def test_weights_are_captured_only_where_there_are_any_and_they_are_small() -> None:
    bound = [c.name for c in OF_XLA if not c.captures and not c.narrow]
    assert names({}, 0) == names({}, CAPTURED_BYTES_MAX + 1) == bound
    assert len(names({}, 1)) > len(bound)


def test_what_the_target_file_says_is_not_varied() -> None:
    left = names({"xla_cpu_experimental_ynn_fusion_type": ""}, 1)
    assert left == ["default", "o2", "wide", "captured"]


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("iree", ["default", "local-sync", "local-task"]),
        ("onnxruntime", ["default", "calling", "pool", "spinning"]),
        ("openvino", ["default", "calling", "pool"]),
        ("tpu", ["default"]),
    ],
)
def test_each_engine_has_candidates_of_its_own(platform: str, expected: list[str]) -> None:
    assert names({}, 1, platform) == expected


def test_a_driver_that_the_target_file_states_is_not_varied() -> None:
    assert names({"iree-driver": "local-sync"}, 1, "iree") == ["default"]


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_engines_that_pack_large_weights_for_each_candidate_are_measured_once(engine: str) -> None:
    assert len(names({}, PACKED_BYTES_MAX, engine)) > 1
    assert names({}, PACKED_BYTES_MAX + 1, engine) == ["default"]
    assert names({f"{engine}-threads": "pool"}, 1, engine) == ["default"]


def product_of_all(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    for matrix in weights:
        x = jnp.tanh(x @ matrix)
    return x


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_lean_candidate_widens_one_matrix_at_a_time(dtype: Any) -> None:
    (lean,) = [c for c in OF_XLA if c.name == "lean"]
    assert lean.narrow and "lean" not in names({}, 0) and "lean" in names({}, 0, narrow=True)
    side, count = 256, 16
    chance = np.random.default_rng(0)
    weights = [jnp.asarray(chance.normal(size=(side, side)) / side, dtype) for _ in range(count)]
    x = jnp.asarray(chance.normal(size=(1, side)), dtype)
    lowered = jax.jit(product_of_all).lower(weights, x)
    compiled = [lowered.compile(compiler_options=dict(each)) for each in ({}, lean.options)]
    widened = 4 * side**2
    default, leaner = (each.memory_analysis().temp_size_in_bytes for each in compiled)
    assert default > 0.9 * count * widened and leaner < 3 * widened
    first, second = (np.asarray(each(weights, x)) for each in compiled)
    assert first.tobytes() == second.tobytes()
