"""Every example is compiled for GPUs that are not here; the same bytes each time.

Needs the wheels of the extra `cuda13`, which `make test-cuda` installs.
"""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest
from msgspec import UNSET

from aotc.backends.cuda import descriptions, disassembly, wheels
from aotc.build.pipeline import build
from aotc.build.target_check import check_target, self_contained
from aotc.config.target import file_text, list_targets, read_target
from aotc.report.explain import Stage, explain
from aotc.report.review import Review, review
from aotc_runtime.schema.device import CudaDevice
from aotc_runtime.schema.manifest import BundleManifest, ParityNotRun
from aotc_runtime.system import host
from aotc_runtime.system.store import open_bundle

ROOT = Path(__file__).parents[2]
WHEELS, MISSING = wheels.find(version("jaxlib"))
DESCRIBED = bool(WHEELS and descriptions.texts_once(WHEELS.plugin))
NAMES = [model.name for model in list_targets(ROOT)[0].values() if model.platform == "cuda"]

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        bool(MISSING) and "AOTC_CUDA" not in os.environ,
        reason="no CUDA wheels here; `make test-cuda` installs them",
    ),
    pytest.mark.skipif(
        not MISSING and not DESCRIBED, reason="this plugin describes no devices; 0.12 does"
    ),
]

EXAMPLES = ("digits", "gp", "lm", "train", "vision")
TARGETS = ("nvidia-a100", "nvidia-b200", "nvidia-h100")

LINALG = """
import jax.numpy as jnp
import jax.scipy.linalg as linalg
import jax


def f(a, key):
    s = a @ a.T + 4 * jnp.eye(4)
    factor = linalg.cholesky(s, lower=True)
    u, _, _ = jnp.linalg.svd(a)
    return factor, u, jnp.linalg.eigh(s)[0], linalg.lu(a), jax.random.normal(key, (3,))
"""
MANIFEST = """
schema = 1
name = "linalg"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "nvidia-h200"]

[entry_points.f]
function = "cuda_linalg:f"
inputs.a = { shape = [4, 4], dtype = "float32" }
inputs.key = { shape = [], dtype = "key<fry>" }
"""


def built(manifest: Path, output: Path, *targets: str) -> dict[str, BundleManifest]:
    return build(manifest, output=output, targets=targets).bundle.manifests


@pytest.mark.parametrize("name", NAMES)
def test_this_machine_compiles_for_each_target_and_cannot_run_it(name: str) -> None:
    checked = check_target(read_target(name, ROOT))
    assert checked.compiler == ()
    assert "AOTC-E501" in [finding.code for finding in checked.host]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_compiled_and_says_that_it_did_not_run(example: str, tmp_path: Path) -> None:
    manifests = built(ROOT / "manifests" / f"{example}.toml", tmp_path / "b.aotb", *TARGETS)
    assert list(manifests) == list(TARGETS)
    for manifest in manifests.values():
        assert manifest.compilation and manifest.compilation.without_device
        assert manifest.compilation.left_out == ("autotuning",)
        assert manifest.requires.device and manifest.requires.device.driver == "13.0"
        assert manifest.requires.device.accepts_plugin == (version("jaxlib"),)
        assert manifest.built_with.tools.keys() >= set(wheels.NEEDED)
        for entry_point in manifest.entry_points.values():
            for profile in entry_point.profiles:
                assert isinstance(profile.parity, ParityNotRun)
                assert profile.thunks and profile.memory.code_bytes


def test_two_builds_are_the_same_bytes_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = build(
        ROOT / "manifests" / "digits.toml", output=tmp_path / "1", targets=TARGETS, cache=None
    )
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=9")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    two = build(
        ROOT / "manifests" / "digits.toml", output=tmp_path / "2", targets=TARGETS, cache=None
    )
    assert one.bundle.root_digest == two.bundle.root_digest


@pytest.mark.parametrize(("devices", "model"), [(4, 2), (8, 4)])
def test_a_sharded_program_is_compiled_for_several_gpus(
    devices: int, model: int, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "manifests" / "parallel", tmp_path / "parallel")
    text = (ROOT / "manifests" / "parallel.toml").read_text()
    text = text.replace("model = 2 }", f"model = {model} }}")
    text = text.replace(
        "[target.cpu-x86-64-v3]\ndevices = 4", f"[target.nvidia-h100]\ndevices = {devices}"
    )
    manifest = tmp_path / "parallel.toml"
    manifest.write_text(text.replace('targets = ["cpu-x86-64-v3"]', 'targets = ["nvidia-h100"]'))
    digests = set()
    for name in ("first.aotb", "second.aotb"):
        bundle = build(manifest, output=tmp_path / name).bundle
        digests.add(bundle.root_digest)
        (part,) = bundle.manifests.values()
        assert part.requires.devices == devices
    assert len(digests) == 1


def test_linear_algebra_is_lowered_to_the_kernels_of_each_platform(tmp_path: Path) -> None:
    (tmp_path / "cuda_linalg.py").write_text(LINALG)
    (tmp_path / "m.toml").write_text(MANIFEST)
    manifests = built(tmp_path / "m.toml", tmp_path / "b.aotb")
    gpu = manifests["nvidia-h200"].requires.custom_call_targets
    assert "cusolver_potrf_ffi" in gpu and not any(name.startswith("lapack") for name in gpu)
    cpu = manifests["cpu-x86-64-v3"].requires.custom_call_targets
    assert "lapack_spotrf_ffi" in cpu and not any(name.startswith("cu") for name in cpu)


def test_a_self_contained_target_needs_no_description_of_the_plugin(tmp_path: Path) -> None:
    target = self_contained(read_target("nvidia-l4", ROOT))
    (tmp_path / "l4.toml").write_text(file_text(target, "nvidia-l4"))
    again = read_target("l4.toml", tmp_path)
    assert again == target
    assert isinstance(again.device, CudaDevice) and again.device.text
    assert check_target(again).compiler == ()


def test_a_device_that_the_plugin_does_not_describe_is_refused_with_those_it_does(
    tmp_path: Path,
) -> None:
    text = (ROOT / "targets" / "nvidia-h100.toml").read_text()
    (tmp_path / "h.toml").write_text(text.replace("H100 80GB HBM3", "H100 80GB HBM4"))
    (finding,) = check_target(read_target("h.toml", tmp_path)).compiler
    assert (finding.code, finding.found) == ("AOTC-E908", "NVIDIA H100 80GB HBM4")
    assert "NVIDIA B200" in finding.expected and "NVIDIA H100 80GB HBM3" in finding.hint


def test_a_change_that_the_plugin_does_not_understand_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "targets" / "nvidia-h100.toml").read_text()
    (tmp_path / "h.toml").write_text(f'{text}\n[changes]\nquantum_cores = "7"\n')
    (finding,) = check_target(read_target("h.toml", tmp_path)).compiler
    assert finding.code == "AOTC-E908" and "quantum_cores" in finding.found


def test_optimized_hlo_is_read_out_of_an_executable(reviewed: Review) -> None:
    shown = explain(reviewed, "predict", Stage.HLO, {}, None, host.detect()).representations
    told = {tuple(e.record.sizes.values()): e.evidence for e in reviewed.executables()}
    assert len(shown) == len(told)
    for each in shown:
        evidence = told[tuple(each.sizes.values())]
        assert evidence is not None and evidence.compiled is not UNSET
        lines = re.findall(r"^  (?:ROOT )?%\S+ = ", each.text, re.MULTILINE)
        assert len(lines) == sum(evidence.compiled.optimized.instructions.values())


@pytest.mark.skipif(
    wheels.file_of(disassembly.PACKAGE, disassembly.TOOL) is None,
    reason="no nvdisasm here; `make test-cuda` installs it",
)
def test_kernels_are_shown_as_assembly(reviewed: Review) -> None:
    (shown,) = explain(
        reviewed, "predict", Stage.ASM, {"batch": 8}, None, host.detect()
    ).representations
    kernels = re.findall(r"^(\S+):  [1-9]\d* bytes$", shown.text, re.MULTILINE)
    assert kernels and kernels == sorted(kernels)
    assert shown.text.count(" EXIT ;") >= len(kernels)


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Review:
    path = tmp_path_factory.mktemp("reviewed") / "digits.aotb"
    build(ROOT / "manifests" / "digits.toml", output=path, targets=["nvidia-h100"])
    return review(open_bundle(path), None, datetime.now(UTC))
