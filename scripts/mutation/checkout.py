"""Copies of the checkout, in which files may be changed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT = ROOT / "out" / "mutation"
"""What is recorded, results, and the bundles of tests."""

PACKAGES = ("aotc", "runtime/aotc_runtime", "runtime/serve/aotc_serve")

COPIED = (
    *("aotc", "benchmarks", "docs", "examples", "manifests"),
    *("runtime", "scripts", "targets", "tests"),
)
"""What tests need of the checkout; beside these, its files."""


@contextmanager
def copied() -> Iterator[Path]:
    """A copy for as long as this lasts."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "checkout")
        copy.mkdir()
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name)
        for file in ROOT.iterdir():
            if file.is_file():
                shutil.copy2(file, copy)
        yield copy


def environment(copy: Path) -> dict[str, str]:
    """Variables by which all processes import the copy, before what is installed."""
    folders = [str(copy / each) for each in ("runtime/serve", "runtime", ".")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONDONTWRITEBYTECODE": "1"}
