"""Builds for accelerators that are not here: what the tests of all platforms share."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from aotc.bundle.read.bundle_review import Review, review
from aotc.compile.target_files import list_targets, read_target
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.target_check import check_target
from aotc_runtime.schema.bundle_manifest import BundleManifest, ParityNotRun
from aotc_runtime.system.bundle_files import open_bundle

ROOT = Path(__file__).parents[2]

LINALG = """
import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg


def f(a, key):
    s = a @ a.T + 4 * jnp.eye(4)
    factor = linalg.cholesky(s, lower=True)
    more = jnp.linalg.{decomposition}(a)[1]
    return factor, more, jnp.linalg.eigh(s)[0], linalg.lu(a), jax.random.normal(key, (3,))
"""
LINALG_MANIFEST = """
schema = 1
name = "linalg"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "{target}"]

[entry_points.f]
function = "{decomposition}_program:f"
inputs.a = {{ shape = [4, 4], dtype = "float32" }}
inputs.key = {{ shape = [], dtype = "key<fry>" }}
"""


def targets_for(platform: str) -> list[str]:
    """Every target of a platform that comes with aotc."""
    return [model.name for model in list_targets(ROOT)[0].values() if model.platform == platform]


def require_compiled_for_only(name: str) -> None:
    """This machine compiles for the target, and cannot run what comes of it."""
    checked = check_target(read_target(name, ROOT))
    assert checked.compiler == ()
    assert "AOTC-E501" in [finding.code for finding in checked.host]


def built(manifest: Path, output: Path, *targets: str) -> dict[str, BundleManifest]:
    return build(manifest, output, BuildOptions(targets=targets)).bundle.manifests


def built_example(name: str, output: Path, targets: Sequence[str]) -> list[BundleManifest]:
    """An example for targets whose executables did not run here, and say so."""
    manifests = built(ROOT / "manifests" / f"{name}.toml", output, *targets)
    assert list(manifests) == list(targets)
    for manifest in manifests.values():
        assert manifest.compilation and manifest.compilation.without_device
        for entry_point in manifest.entry_points.values():
            for profile in entry_point.profiles:
                assert isinstance(profile.parity, ParityNotRun)
                assert profile.thunks and profile.memory.code_bytes
    return list(manifests.values())


def digits_root(output: Path, targets: Sequence[str]) -> str:
    """The root digest of a build that finds nothing in a cache."""
    digits = ROOT / "manifests" / "digits.toml"
    return build(digits, output, BuildOptions(targets=targets, cache=None)).bundle.root_digest


def sharded(folder: Path, model: int, target: str) -> Path:
    """The manifest of the sharded example over a mesh of 2 by so many devices, for a target."""
    shutil.copytree(ROOT / "manifests" / "parallel", folder / "parallel")
    text = (ROOT / "manifests" / "parallel.toml").read_text()
    text = text.replace("model = 2 }", f"model = {model} }}")
    text = text.replace("devices = 4", f"devices = {2 * model}")
    (folder / "parallel.toml").write_text(text.replace("cpu-x86-64-v3", target))
    return folder / "parallel.toml"


def built_twice(manifest: Path, folder: Path, target: str) -> BundleManifest:
    """Return what two builds make, the same bytes."""
    first, second = (
        build(manifest, folder / f"{name}.aotb", BuildOptions(targets=(target,))).bundle
        for name in ("first", "second")
    )
    assert first.root_digest == second.root_digest
    return first.manifests[target]


def linear_algebra(folder: Path, decomposition: str, target: str) -> tuple[set[str], set[str]]:
    """Custom calls of factorizations for this processor, and for a target. decomposition: one of
    them, of `jax.numpy.linalg`.
    """
    named = {"decomposition": decomposition, "target": target}
    (folder / f"{decomposition}_program.py").write_text(LINALG.format(**named))
    (folder / "linalg.toml").write_text(LINALG_MANIFEST.format(**named))
    manifests = built(folder / "linalg.toml", folder / "linalg.aotb")
    cpu, other = (
        set(manifests[name].requires.custom_call_targets) for name in ("cpu-x86-64-v3", target)
    )
    return cpu, other


def reviewed_example(name: str, path: Path, target: str) -> Review:
    """An example, built for a target and read."""
    build(ROOT / "manifests" / f"{name}.toml", path, BuildOptions(targets=[target]))
    return review(open_bundle(path), None, datetime.now(UTC))
