"""Every example is compiled for GPUs that are not here; the same bytes each time.

Needs the wheels of the extra `cuda13`, which `make test-cuda` installs.
"""

import os
from importlib.metadata import version
from pathlib import Path

import pytest
from msgspec import UNSET

from aotc.base.errors import CompileError
from aotc.bundle.read.bundle_review import Review
from aotc.compile.compiler_registry import kind_of
from aotc.compile.target_files import file_text, read_target
from aotc.engines.cuda import cuda_wheels, gpu_descriptions
from aotc.pipeline.target_check import check_target
from aotc_runtime.schema.bundle_manifest import CudaDevice
from tests.e2e import accelerator_builds

try:
    WHEELS = cuda_wheels.find(version("jaxlib"))
except CompileError:
    WHEELS = None
DESCRIBED = bool(WHEELS and gpu_descriptions.texts_once(WHEELS.plugin))

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.limit(3600),
    pytest.mark.skipif(
        WHEELS is None and "AOTC_CUDA" not in os.environ,
        reason="no CUDA wheels here; `make test-cuda` installs them",
    ),
    pytest.mark.skipif(
        WHEELS is not None and not DESCRIBED, reason="this plugin describes no devices; 0.12 does"
    ),
]

EXAMPLES = ("digits", "gp", "lm", "train", "vision")
TARGETS = ("nvidia-a100", "nvidia-b200", "nvidia-h100")


@pytest.mark.parametrize("name", accelerator_builds.targets_for("cuda"))
def test_this_machine_compiles_for_each_target_and_cannot_run_it(name: str) -> None:
    accelerator_builds.require_compiled_for_only(name)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_compiled_and_says_that_it_did_not_run(example: str, tmp_path: Path) -> None:
    for manifest in accelerator_builds.built_example(example, tmp_path / "b.aotb", TARGETS):
        assert manifest.compilation and manifest.compilation.left_out == ("autotuning", "cudnn")
        assert manifest.requires.device and manifest.requires.device.driver == "13.0"
        assert manifest.requires.device.accepts_plugin == (version("jaxlib"),)
        assert manifest.built_with.tools.keys() >= set(cuda_wheels.NEEDED)


def test_builds_ignore_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = accelerator_builds.digits_root(tmp_path / "1", TARGETS)
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=9")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert accelerator_builds.digits_root(tmp_path / "2", TARGETS) == one


@pytest.mark.parametrize("model", [2, 4])
def test_a_sharded_program_is_compiled_for_several_gpus(model: int, tmp_path: Path) -> None:
    manifest = accelerator_builds.sharded(tmp_path, model, "nvidia-h100")
    part = accelerator_builds.built_twice(manifest, tmp_path, "nvidia-h100")
    assert part.requires.devices == 2 * model


def test_linear_algebra_is_lowered_to_the_kernels_of_each_platform(tmp_path: Path) -> None:
    cpu, gpu = accelerator_builds.linear_algebra(tmp_path, "svd", "nvidia-h200")
    assert "cusolver_potrf_ffi" in gpu and not any(name.startswith("lapack") for name in gpu)
    assert "lapack_spotrf_ffi" in cpu and not any(name.startswith("cu") for name in cpu)


def test_a_self_contained_target_needs_no_description_of_the_plugin(tmp_path: Path) -> None:
    target = kind_of("cuda").self_contained(read_target("nvidia-l4", accelerator_builds.ROOT))
    (tmp_path / "l4.toml").write_text(file_text(target, "nvidia-l4"))
    again = read_target("l4.toml", tmp_path)
    assert again == target
    assert isinstance(again.device, CudaDevice) and again.device.text
    assert check_target(again).compiler == ()


def test_unknown_device_rejected_with_known_ones(tmp_path: Path) -> None:
    text = (accelerator_builds.ROOT / "targets" / "nvidia-h100.toml").read_text()
    (tmp_path / "h.toml").write_text(text.replace("H100 80GB HBM3", "H100 80GB HBM4"))
    (finding,) = check_target(read_target("h.toml", tmp_path)).compiler
    assert (finding.code, finding.found) == ("AOTC-E908", "NVIDIA H100 80GB HBM4")
    assert "NVIDIA B200" in finding.expected and "NVIDIA H100 80GB HBM3" in finding.hint


def test_a_change_that_the_plugin_does_not_understand_is_refused(tmp_path: Path) -> None:
    text = (accelerator_builds.ROOT / "targets" / "nvidia-h100.toml").read_text()
    (tmp_path / "h.toml").write_text(f'{text}\n[changes]\nquantum_cores = "7"\n')
    (finding,) = check_target(read_target("h.toml", tmp_path)).compiler
    assert finding.code == "AOTC-E908" and "quantum_cores" in finding.found


def test_the_plan_of_buffers_is_that_of_the_memory_analysis(reviewed: Review) -> None:
    for executable in reviewed.executables():
        assert executable.evidence is not None and executable.evidence.compiled is not UNSET
        plan, memory = executable.evidence.compiled.plan, executable.record.memory
        assert plan.allocations["parameter"].size_bytes == memory.argument_bytes
        assert plan.allocations["temporary"].size_bytes == memory.temp_bytes


def test_products_and_convolutions_are_those_that_run_without_autotuning(tmp_path: Path) -> None:
    review = accelerator_builds.reviewed_example("vision", tmp_path / "vision.aotb", "nvidia-h100")
    for executable in review.executables():
        assert executable.evidence is not None and executable.evidence.compiled is not UNSET
        compiled = executable.evidence.compiled
        assert compiled.optimized.instructions["convolution"]
        assert not [name for name in compiled.optimized.custom_calls if "__cudnn$" in name]
        assert not [name for name in compiled.kernels if "gemm_fusion" in name]


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Review:
    return accelerator_builds.reviewed_example(
        "digits", tmp_path_factory.mktemp("reviewed") / "digits.aotb", "nvidia-h100"
    )
