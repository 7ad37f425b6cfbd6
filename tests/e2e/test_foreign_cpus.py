"""Bundles on processors that this host is not. Nothing ends in SIGILL, except where our check is
taken away to show what it is for.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import emulated
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from tests.conftest import manifest_of

pytestmark = [pytest.mark.foreign, pytest.mark.limit(3600)]

V2, V3, V4 = (f"cpu-x86-64-{level}" for level in ("v2", "v3", "v4"))
ABOVE_V3 = "avx512bw, avx512cd, avx512dq, avx512f, avx512vl"

PROGRAM = """
import jax.numpy as jnp

def f(x):
    kernels = jnp.tanh(x) * 3 + jnp.cumsum(jnp.exp(x), axis=0)
    return kernels, x @ x.T, jnp.sort(x, axis=1)
"""

MANIFEST = manifest_of("""
name = "foreign"
[entry_points.f]
function = "foreign_program:f"
inputs.x = { shape = [32, 48], dtype = "float32" }
tolerance = { rtol = 1e-5, atol = 1e-5 }
[entry_points.f.fixtures]
seed = 0
""")

X = np.linspace(-1, 1, 32 * 48, dtype=np.float32).reshape(32, 48)

On = Callable[[str], emulated.Emulator]


class Bundles(NamedTuple):
    """One program, compiled for one target, for another, and for both; who may sign it."""

    v3: Path
    v4: Path
    both: Path
    policy: Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program and its manifest."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "foreign_program.py").write_text(PROGRAM)
    (folder / "foreign.toml").write_text(MANIFEST)
    return folder


@pytest.fixture(scope="module")
def bundles(qemu: Path, folder: Path) -> Bundles:
    signer = LocalSigner.ephemeral()
    policy = folder / "trust.toml"
    policy.write_text(policy_text("foreign", [signer.public_pem()]))

    def built(name: str, targets: Sequence[str]) -> Path:
        path = folder / f"{name}.aotb"
        build(folder / "foreign.toml", path, BuildOptions(targets=targets, signer=signer))
        return path

    return Bundles(built("v3", [V3]), built("v4", [V4]), built("both", [V3, V4]), policy)


@pytest.fixture(scope="module")
def qemu() -> Path:
    return emulated.qemu_x86()


@pytest.fixture
def on(tmp_path: Path) -> On:
    """The loader on a processor, by qemu's name for it."""
    return lambda cpu: emulated.Emulator(emulated.x86(cpu), tmp_path)


def expected() -> list[Any]:
    """Return what f(X) is, by plain JAX on this host."""
    kernels = jnp.tanh(X) * 3 + jnp.cumsum(jnp.exp(X), axis=0)
    return [kernels, jnp.asarray(X) @ X.T, jnp.sort(X, axis=1)]


def assert_right(said: emulated.Said, target: str) -> None:
    assert said.exit_code == 0, said.document
    assert said.document["report"]["target"] == target
    assert said.document["report"]["compilations"] == 0
    assert "jax" not in said.document["loaded"]
    for actual, wanted in zip(said.outputs, expected(), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cpu", ["Haswell", "max"])
def test_v3_bundle_is_right_on_v3_processor(bundles: Bundles, on: On, cpu: str) -> None:
    assert_right(on(cpu).load((bundles.v3, bundles.policy), X), V3)
    verified = on(cpu).verify((bundles.v3, bundles.policy))
    assert (verified.exit_code, verified.document["ok"]) == (0, True)


@pytest.mark.parametrize("cpu", ["Haswell", "max"])
def test_v4_bundle_on_v3_names_missing_features(bundles: Bundles, on: On, cpu: str) -> None:
    loaded = on(cpu).load((bundles.v4, bundles.policy), X)
    verified = on(cpu).verify((bundles.v4, bundles.policy))
    for said in (loaded, verified):
        assert (said.exit_code, said.codes) == (7, ["AOTC-E502"])
        assert said.document["findings"][0]["expected"] == ABOVE_V3


def test_unchecked_process_dies_of_illegal_instruction(bundles: Bundles, on: On) -> None:
    said = on("Haswell").load((bundles.v4, bundles.policy), X, without_check="check_isa")
    assert said.exit_code == emulated.SIGILL


def test_of_a_bundle_for_both_a_v3_processor_takes_v3(bundles: Bundles, on: On) -> None:
    assert_right(on("Haswell").load((bundles.both, bundles.policy), X), V3)


@pytest.mark.parametrize(
    ("cpu", "missing"),
    [
        ("Nehalem", "avx, avx2, bmi, bmi2, f16c, fma, lzcnt, movbe"),
        ("SandyBridge", "avx2, bmi, bmi2, f16c, fma, lzcnt, movbe"),
        # jaxlib's own guard asks for neither, and the processor dies of SIGILL in jaxlib.
        ("Haswell,-movbe", "movbe"),
        ("Haswell,-popcnt", "popcnt"),
        # AVX without the operating system's support for its registers.
        ("Haswell,-xsave", "avx, avx2, f16c, fma"),
    ],
)
def test_loader_rejects_host_below_jaxlib(bundles: Bundles, on: On, cpu: str, missing: str) -> None:
    loaded = on(cpu).load((bundles.v3, bundles.policy), X)
    verified = on(cpu).verify((bundles.v3, bundles.policy))
    for said in (loaded, verified):
        assert (said.exit_code, said.codes) == (7, ["AOTC-E506"])
        assert said.document["findings"][0]["expected"] == f"processor features {missing}"
    assert loaded.document["loaded"] == []


@pytest.fixture(scope="module")
def v2_bundle(qemu: Path, folder: Path) -> tuple[Path, Path, Path]:
    """A v2 bundle made by jaxlib 0.11.2, its policy, and the python that has this jaxlib."""
    programs = emulated.old_environment()
    bundle, policy = folder / "v2.aotb", folder / "old.toml"

    def aotc(*arguments: str | Path) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [programs / "aotc", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr

    aotc("keygen", "--plain", "old")
    aotc("trust", "init", "--key", "old.pub", "--name", "foreign", "--output", policy)
    aotc("build", "foreign.toml", "--key", "old.key", "--output", bundle, "--target", V2)
    return bundle, policy, programs / "python"


def test_v2_bundle_runs_without_avx2(v2_bundle: tuple[Path, Path, Path], tmp_path: Path) -> None:
    bundle, policy, python = v2_bundle
    server = emulated.x86("SandyBridge", python)
    assert_right(emulated.Emulator(server, tmp_path).load((bundle, policy), X), V2)


def test_jaxlib_without_avx_is_rejected(v2_bundle: tuple[Path, Path, Path], tmp_path: Path) -> None:
    bundle, policy, python = v2_bundle
    server = emulated.x86("Nehalem", python)
    said = emulated.Emulator(server, tmp_path).load((bundle, policy), X)
    assert (said.exit_code, said.codes) == (7, ["AOTC-E506"])
