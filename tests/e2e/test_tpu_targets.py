"""Every example is compiled for TPUs that are not here; the same bytes each time.

Needs the extra `tpu`, which `make test-tpu` installs.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.base.errors import CaptureError, CompileError
from aotc.base.stages import CompileJob, Module
from aotc.capture.portable_stablehlo import portable
from aotc.compile.target_files import read_target
from aotc.engines.tpu import tpu_wheels
from aotc.engines.tpu.tpu_compiler import TpuBackend
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.target_check import check_target
from aotc_runtime.schema.bundle_manifest import ParityNotRun
from aotc_runtime.schema.served_kernels import is_tpu_call
from tests.e2e import accelerator_builds

try:
    _, LIBTPU = tpu_wheels.find()
except CompileError:
    LIBTPU = ""

pytestmark = [
    pytest.mark.tpu,
    pytest.mark.limit(3600),
    pytest.mark.skipif(not LIBTPU, reason="no libtpu here; `make test-tpu` installs it"),
]

EXAMPLES = ("detector", "digits", "encoder", "gp", "lm", "train", "vision")
FAMILIES = ("tpu-v4-2x2x1", "tpu-v5e-1x1", "tpu-v5p-2x2x1", "tpu-v6e-1x1", "tpu7x-2x2x1")


def module(platform: str) -> Module:
    """A matrix and its Cholesky factor, lowered for a platform."""
    # jax would otherwise look for TPUs where it finds libtpu.
    jax.config.update("jax_platforms", "cpu")
    traced = jax.jit(jnp.linalg.cholesky).trace(jax.ShapeDtypeStruct((4, 4), jnp.float32))
    return portable(traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo"))


@pytest.mark.parametrize("name", accelerator_builds.targets_for("tpu"))
def test_this_machine_compiles_for_each_target_and_cannot_run_it(name: str) -> None:
    accelerator_builds.require_compiled_for_only(name)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_compiled_and_says_that_it_did_not_run(example: str, tmp_path: Path) -> None:
    families = FAMILIES if example == "digits" else ("tpu-v5e-1x1",)
    for manifest in accelerator_builds.built_example(example, tmp_path / "b.aotb", families):
        assert manifest.requires.device
        assert manifest.requires.device.plugin == "libtpu"
        assert manifest.requires.device.accepts_plugin == (LIBTPU,)
        assert manifest.built_with.tools == {"libtpu": LIBTPU}
        assert all(map(is_tpu_call, manifest.requires.custom_call_targets))


def test_builds_ignore_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = accelerator_builds.digits_root(tmp_path / "1", FAMILIES)
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_enable_async_collective_fusion=false")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v4-8")
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "a,b")
    assert accelerator_builds.digits_root(tmp_path / "2", FAMILIES) == one


@pytest.mark.parametrize(("target", "model"), [("tpu-v5e-2x2", 2), ("tpu-v5e-2x4", 4)])
def test_sharded_program_is_compiled_for_all_chips(target: str, model: int, tmp_path: Path) -> None:
    part = accelerator_builds.built_twice(
        accelerator_builds.sharded(tmp_path, model, target), tmp_path, target
    )
    assert part.requires.devices == part.target.devices == 2 * model


def test_linear_algebra_is_lowered_to_what_each_platform_has(tmp_path: Path) -> None:
    cpu, tpu = accelerator_builds.linear_algebra(tmp_path, "qr", "tpu-v5e-1x1")
    assert {"Cholesky", "EighTpu", "QrDecompositionBlock"} <= tpu
    assert "lapack_spotrf_ffi" in cpu


def test_the_same_module_for_another_topology_is_another_executable() -> None:
    digests = {
        TpuBackend()
        .compile(CompileJob("f", module("tpu"), read_target(name, accelerator_builds.ROOT)))
        .digest
        for name in ("tpu-v5e-1x1", "tpu-v5e-2x4", "tpu-v6e-1x1")
    }
    assert len(digests) == 3


def test_a_custom_call_that_is_no_code_for_a_tpu_is_refused_by_name() -> None:
    job = CompileJob("f", module("cpu"), read_target("tpu-v5e-1x1", accelerator_builds.ROOT))
    with pytest.raises(CompileError) as caught:
        TpuBackend().compile(job)
    (finding,) = caught.value.findings
    assert (finding.code, finding.found) == ("AOTC-E904", "lapack_spotrf_ffi")
    assert "Cholesky" in finding.expected


def test_an_option_that_libtpu_does_not_know_is_refused(tmp_path: Path) -> None:
    text = (accelerator_builds.ROOT / "targets" / "tpu-v5e-1x1.toml").read_text()
    (tmp_path / "t.toml").write_text(f'{text}options = {{ xla_tpu_quantum = "7" }}\n')
    (finding,) = check_target(read_target("t.toml", tmp_path)).compiler
    assert finding.code == "AOTC-E901" and "xla_tpu_quantum" in finding.found


PALLAS = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def kernel(x_ref, o_ref):
    o_ref[...] = jnp.tanh(x_ref[...]) * 2.0


def f(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x) + 1
"""

PALLAS_MANIFEST = """
schema = 1
name = "kernels"
version = "1.0.0"
targets = ["tpu-v5e-1x1"]

[entry_points.f]
function = "program:f"
inputs.x = { shape = [8, 128], dtype = "float32" }
fixtures = { file = "inputs.npz", results = "results.npz" }
"""


def kernels(folder: Path, program: str) -> Path:
    """The manifest of a program with a kernel, and its fixture as a TPU would give it."""
    folder.mkdir()
    (folder / "program.py").write_text(program)
    (folder / "program.toml").write_text(PALLAS_MANIFEST)
    x = np.linspace(-1, 1, 1024, dtype=np.float32).reshape(8, 128)
    np.savez(folder / "inputs.npz", x=x)
    np.savez(folder / "results.npz", result=np.tanh(x) * 2 + 1)
    return folder / "program.toml"


def test_a_kernel_of_pallas_is_compiled_with_recorded_results(tmp_path: Path) -> None:
    one, other = (
        build(
            kernels(tmp_path / name, program), tmp_path / f"{name}.aotb", BuildOptions(cache=None)
        )
        for name, program in (("one", PALLAS), ("other", f"# a line\n{PALLAS}"))
    )
    assert one.bundle.root_digest == other.bundle.root_digest
    (manifest,) = one.bundle.manifests.values()
    assert manifest.requires.custom_call_targets == ("tpu_custom_call",)
    assert isinstance(manifest.entry_points["f"].profiles[0].parity, ParityNotRun)
    assert any("recorded elsewhere" in note for note in one.notes)


def test_a_kernel_of_pallas_without_recorded_results_cannot_be_checked(tmp_path: Path) -> None:
    manifest = kernels(tmp_path / "program", PALLAS)
    manifest.write_text(PALLAS_MANIFEST[: PALLAS_MANIFEST.index("fixtures")])
    with pytest.raises(CaptureError) as caught:
        build(manifest, output=tmp_path / "b.aotb")
    assert [finding.code for finding in caught.value.findings] == ["AOTC-E842"]
