"""Executables hold no instruction above their target's level, whatever the host that builds has."""

from pathlib import Path

import machine_code
import msgspec
import pytest

from aotc.base.stages import CompileJob, Module
from aotc.compile.target_files import read_target
from aotc.compile.xla.xla_compiler import XlaBackend
from aotc.compile.xla.xla_objects import Contents, contents
from aotc.pipeline.build import build
from aotc_runtime.base.digest import sha256
from aotc_runtime.system.bundle_files import MappedBundle, open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Once

V3, V4 = "cpu-x86-64-v3", "cpu-x86-64-v4"

PROGRAM = """
import jax
import jax.numpy as jnp

def dense(x):
    return jnp.exp(x @ x.T) + jnp.tanh(x) @ x

def convolution(x):
    kernel = jnp.sin(x[:9, :16].reshape(3, 3, 4, 4))
    image = x.reshape(1, 16, 16, 4)
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=dimensions)

def integers(x):
    bits = jax.random.bits(jax.random.wrap_key_data(x[0, :2].astype("uint32")), (64, 7))
    picked = jnp.argsort(bits, axis=0)[:, 0]
    return picked, jax.lax.population_count(bits), x[picked % 32].astype("bfloat16")

def halves(x):
    wide = x.astype("float16") * 3
    return wide.sum(), x.astype("bfloat16") @ x.T.astype("bfloat16"), jnp.cumsum(x, axis=0)
"""

ENTRY_POINTS = ("dense", "convolution", "integers", "halves")

MANIFEST = f"""
schema = 1
name = "wide"
version = "1.0.0"
targets = ["{V3}", "{V4}"]
""" + "".join(
    f"""
[entry_points.{name}]
function = "wide:{name}"
inputs.x = {{ shape = [32, 32], dtype = "float32" }}
tolerance = {{ rtol = 1e-2, atol = 1e-2 }}
[entry_points.{name}.fixtures]
ranges = {{ x = [0, 1] }}
"""
    for name in ENTRY_POINTS
)


@pytest.fixture(scope="module")
def wide(once: Once) -> MappedBundle:
    """A program that would use AVX-512 wherever it may, for both levels."""

    def fill(folder: Path) -> None:
        (folder / "wide.py").write_text(PROGRAM)
        (folder / "wide.toml").write_text(MANIFEST)
        build(folder / "wide.toml", output=folder / "wide.aotb")

    return open_bundle(once("instructions", fill) / "wide.aotb")


def executables(bundle: MappedBundle, target: str) -> dict[str, Contents]:
    """Return what is inside the executables of one target, by entry point and profile."""
    manifest = read_unverified(bundle)[0].manifests[target]
    return {
        f"{name}[{index}]": contents(bytes(bundle.blob(profile.executable.digest) or b""))
        for name, entry_point in manifest.entry_points.items()
        for index, profile in enumerate(entry_point.profiles)
    }


def assert_level_3(inside: dict[str, Contents]) -> None:
    for name, parts in inside.items():
        assert parts.objects, name
        assert sum(1 for elf in parts.objects for _ in machine_code.instructions(elf)) > 20, name
        assert [line for elf in parts.objects for line in machine_code.above_level_3(elf)] == []


def test_code_for_v3_holds_no_instruction_above_v3(wide: MappedBundle) -> None:
    inside = executables(wide, V3)
    assert set(inside) == {f"{name}[0]" for name in ENTRY_POINTS}
    assert_level_3(inside)


def test_the_same_program_for_v4_uses_instructions_above_v3(wide: MappedBundle) -> None:
    for name, parts in executables(wide, V4).items():
        lines = [line for elf in parts.objects for line in machine_code.above_level_3(elf)]
        assert lines, f"{name}: the check for v3 could not fail"


def test_the_manifests_require_what_the_code_uses(wide: MappedBundle) -> None:
    manifests = read_unverified(wide)[0].manifests
    for target in (V3, V4):
        assert manifests[target].requires.isa == manifests[target].target.features
    assert "avx512f" in manifests[V4].requires.isa
    assert not any(feature.startswith("avx512") for feature in manifests[V3].requires.isa)


@pytest.mark.parametrize("cpu", ["x86-64-v4", "skylake-avx512", "znver5"])
def test_processor_name_adds_no_features(wide: MappedBundle, cpu: str, tmp_path: Path) -> None:
    profile = read_unverified(wide)[0].manifests[V3].entry_points["dense"].profiles[0]
    artifact = bytes(wide.blob(profile.module.digest) or b"")
    target = msgspec.structs.replace(read_target(V3, tmp_path), cpu=cpu)
    executable = XlaBackend().compile(
        CompileJob("dense", Module(artifact, sha256(artifact), "", ()), target)
    )
    assert_level_3({cpu: contents(executable.serialized)})
    assert executable.isa == target.features
