"""The model files under manifests/, and the walk through one of them in docs/frontends.md."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile.doors import toolchain

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


def test_the_walk_in_the_documentation_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line, comments=True) for line in walk("sh").splitlines()]
    assert [words[:2] for words in commands] == [
        ["aotc", each] for each in ("keygen", "trust", "build", "verify")
    ]
    for _, *arguments in commands:
        assert toolchain(arguments) == 0, arguments
    exec(compile(walk("python"), "docs/frontends.md", "exec"), {})


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
