"""Every example is compiled for TPUs that are not here; the same bytes each time.

Needs the extra `tpu`, which `make test-tpu` installs.
"""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from msgspec import UNSET

from aotc.backends.tpu import wheels
from aotc.backends.tpu.compile import TpuBackend
from aotc.build.pipeline import build
from aotc.build.target_check import check_target
from aotc.config.target import list_targets, read_target
from aotc.errors import CompileError
from aotc.lowering.stablehlo import portable
from aotc.report.explain import Stage, explain
from aotc.report.review import review
from aotc.stages import CompileJob, Module
from aotc_runtime.schema.kernels import is_tpu_call
from aotc_runtime.schema.manifest import BundleManifest, ParityNotRun
from aotc_runtime.system import host
from aotc_runtime.system.store import open_bundle

ROOT = Path(__file__).parents[2]
_, LIBTPU, MISSING = wheels.find()
NAMES = [model.name for model in list_targets(ROOT)[0].values() if model.platform == "tpu"]

pytestmark = [
    pytest.mark.tpu,
    pytest.mark.skipif(bool(MISSING), reason="no libtpu here; `make test-tpu` installs it"),
]

EXAMPLES = ("detector", "digits", "encoder", "gp", "lm", "train", "vision")
FAMILIES = ("tpu-v4-2x2x1", "tpu-v5e-1x1", "tpu-v5p-2x2x1", "tpu-v6e-1x1", "tpu7x-2x2x1")

LINALG = """
import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg


def f(a, key):
    s = a @ a.T + 4 * jnp.eye(4)
    factor = linalg.cholesky(s, lower=True)
    q, _ = jnp.linalg.qr(a)
    return factor, q, jnp.linalg.eigh(s)[0], linalg.lu(a), jax.random.normal(key, (3,))
"""
MANIFEST = """
schema = 1
name = "linalg"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "tpu-v5e-1x1"]

[entry_points.f]
function = "tpu_linalg:f"
inputs.a = { shape = [4, 4], dtype = "float32" }
inputs.key = { shape = [], dtype = "key<fry>" }
"""


def built(manifest: Path, output: Path, *targets: str) -> dict[str, BundleManifest]:
    return build(manifest, output=output, targets=targets).bundle.manifests


def module(platform: str) -> Module:
    """A matrix and its Cholesky factor, lowered for a platform."""
    # jax would otherwise look for TPUs where it finds libtpu.
    jax.config.update("jax_platforms", "cpu")
    traced = jax.jit(jnp.linalg.cholesky).trace(jax.ShapeDtypeStruct((4, 4), jnp.float32))
    return portable(traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo"))


@pytest.mark.parametrize("name", NAMES)
def test_this_machine_compiles_for_each_target_and_cannot_run_it(name: str) -> None:
    checked = check_target(read_target(name, ROOT))
    assert checked.compiler == ()
    assert "AOTC-E501" in [finding.code for finding in checked.host]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_compiled_and_says_that_it_did_not_run(example: str, tmp_path: Path) -> None:
    families = FAMILIES if example == "digits" else ("tpu-v5e-1x1",)
    manifests = built(ROOT / "manifests" / f"{example}.toml", tmp_path / "b.aotb", *families)
    assert list(manifests) == list(families)
    for manifest in manifests.values():
        assert manifest.compilation and manifest.compilation.without_device
        assert manifest.requires.device
        assert manifest.requires.device.plugin == "libtpu"
        assert manifest.requires.device.accepts_plugin == (LIBTPU,)
        assert manifest.built_with.tools == {"libtpu": LIBTPU}
        assert all(map(is_tpu_call, manifest.requires.custom_call_targets))
        for entry_point in manifest.entry_points.values():
            for profile in entry_point.profiles:
                assert isinstance(profile.parity, ParityNotRun)
                assert profile.thunks and profile.memory.code_bytes


def test_two_builds_are_the_same_bytes_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = ROOT / "manifests" / "digits.toml"
    one = build(manifest, output=tmp_path / "1", targets=FAMILIES, cache=None)
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_enable_async_collective_fusion=false")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v4-8")
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "a,b")
    two = build(manifest, output=tmp_path / "2", targets=FAMILIES, cache=None)
    assert one.bundle.root_digest == two.bundle.root_digest


def sharded(tmp_path: Path, model: int) -> Path:
    """The sharded example over a mesh of 2 by so many devices."""
    shutil.copytree(ROOT / "manifests" / "parallel", tmp_path / "parallel")
    text = (ROOT / "manifests" / "parallel.toml").read_text()
    manifest = tmp_path / "parallel.toml"
    manifest.write_text(text.replace("model = 2 }", f"model = {model} }}"))
    return manifest


@pytest.mark.parametrize(("target", "model"), [("tpu-v5e-2x2", 2), ("tpu-v5e-2x4", 4)])
def test_a_sharded_program_is_compiled_for_all_chips_of_a_topology(
    target: str, model: int, tmp_path: Path
) -> None:
    manifest = sharded(tmp_path, model)
    digests = set()
    for name in ("first.aotb", "second.aotb"):
        bundle = build(manifest, output=tmp_path / name, targets=(target,)).bundle
        digests.add(bundle.root_digest)
        (part,) = bundle.manifests.values()
        assert part.requires.devices == part.target.devices == 2 * model
    assert len(digests) == 1


def test_linear_algebra_is_lowered_to_what_each_platform_has(tmp_path: Path) -> None:
    (tmp_path / "tpu_linalg.py").write_text(LINALG)
    (tmp_path / "m.toml").write_text(MANIFEST)
    manifests = built(tmp_path / "m.toml", tmp_path / "b.aotb")
    called = manifests["tpu-v5e-1x1"].requires.custom_call_targets
    assert {"Cholesky", "EighTpu", "QrDecompositionBlock"} <= set(called)
    assert "lapack_spotrf_ffi" in manifests["cpu-x86-64-v3"].requires.custom_call_targets


def test_the_same_module_for_another_topology_is_another_executable() -> None:
    digests = {
        TpuBackend().compile(CompileJob("f", module("tpu"), read_target(name, ROOT))).digest
        for name in ("tpu-v5e-1x1", "tpu-v5e-2x4", "tpu-v6e-1x1")
    }
    assert len(digests) == 3


def test_a_custom_call_that_is_no_code_for_a_tpu_is_refused_by_name() -> None:
    job = CompileJob("f", module("cpu"), read_target("tpu-v5e-1x1", ROOT))
    with pytest.raises(CompileError) as caught:
        TpuBackend().compile(job)
    (finding,) = caught.value.findings
    assert (finding.code, finding.found) == ("AOTC-E904", "lapack_spotrf_ffi")
    assert "Cholesky" in finding.expected


def test_an_option_that_libtpu_does_not_know_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "targets" / "tpu-v5e-1x1.toml").read_text()
    (tmp_path / "t.toml").write_text(f'{text}options = {{ xla_tpu_quantum = "7" }}\n')
    (finding,) = check_target(read_target("t.toml", tmp_path)).compiler
    assert finding.code == "AOTC-E901" and "xla_tpu_quantum" in finding.found


def test_optimized_hlo_is_read_out_of_an_executable(tmp_path: Path) -> None:
    build(ROOT / "manifests" / "digits.toml", output=tmp_path / "b", targets=["tpu-v5e-1x1"])
    found = review(open_bundle(tmp_path / "b"), None, datetime.now(UTC))
    told = {tuple(e.record.sizes.values()): e.evidence for e in found.executables()}
    shown = explain(found, "predict", Stage.HLO, {}, None, host.detect()).representations
    assert len(shown) == len(told)
    for each in shown:
        evidence = told[tuple(each.sizes.values())]
        assert evidence is not None and evidence.compiled is not UNSET
        lines = re.findall(r"^  (?:ROOT )?%\S+ = ", each.text, re.MULTILINE)
        assert len(lines) == sum(evidence.compiled.optimized.instructions.values())
    (shown,) = explain(
        found, "predict", Stage.ASM, {"batch": 8}, None, host.detect()
    ).representations
    assert shown.text == "" and "TPU" in shown.note
