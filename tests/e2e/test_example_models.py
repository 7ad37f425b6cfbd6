"""The model files under manifests/, and the walk through one of them in docs/frontends.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aotc_runtime

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
LARGEST = 100_000
"""Bytes of a model file that is committed."""


def walk(language: str) -> str:
    """The first block of a language in the section on examples."""
    page = (ROOT / "docs" / "frontends.md").read_text("utf-8")
    section = page.partition("\n## Five examples\n")[2].partition("\n## ")[0]
    (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return str(block)


def test_the_walk_in_the_documentation_works_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    for command in (["bash", "-e", "-c", walk("sh")], [sys.executable, "-c", walk("python")]):
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("name", "entry_point", "results"),
    [
        ("smooth", "smooth", {"smooth": "smooth[batch=8]", "rest": "rest[batch=8]"}),
        ("softmax", "softmax", {0: "0"}),
    ],
)
def test_an_example_answers_as_numpy_does(
    built: Callable[[str], tuple[Path, Path]],
    name: str,
    entry_point: str,
    results: dict[str | int, str],
) -> None:
    bundle, policy = built(name)
    (x,) = np.load(MANIFESTS / name / "inputs.npz").values()
    expected = np.load(MANIFESTS / name / "expected.npz")
    loaded = aotc_runtime.load(bundle, trust=policy)
    found = loaded[entry_point](x)
    for key, array in results.items():
        np.testing.assert_allclose(found[key], expected[array], rtol=1e-5, atol=1e-6)
    loaded.close()


def test_committed_model_files_are_small_and_name_no_folder_of_whoever_wrote_them() -> None:
    files = [
        path
        for suffix in ("pt2", "onnx", "jax", "mlir")
        for path in MANIFESTS.glob(f"*/*.{suffix}")
    ]
    assert len(files) == 4
    for path in files:
        data = path.read_bytes()
        assert len(data) < LARGEST
        assert not re.search(rb"/(home|root|work|usr|tmp)/", data), path
