"""A copy of the running toolchain, for an environment in which it is not installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from shutil import copytree, ignore_patterns

import aotc
import aotc_runtime
import aotc_serve
from aotc.compile.target_files import builtin_folder


@contextmanager
def toolchain_copy() -> Iterator[Path]:
    """A folder with both packages, the built-in targets, and the metadata that names backends."""
    with tempfile.TemporaryDirectory(prefix="aotc-toolchain-") as name:
        folder = Path(name)
        for package in (aotc, aotc_runtime, aotc_serve):
            (source,) = package.__path__
            ignored = ignore_patterns("__pycache__")
            copytree(source, folder / package.__name__, ignore=ignored, dirs_exist_ok=True)
        packaged = folder / aotc.__name__ / "targets"
        copytree(builtin_folder(), packaged, dirs_exist_ok=True)
        for project in ("aotc", "aotc-runtime", "aotc-serve"):
            found = distribution(project)
            metadata = folder / f"{project.replace('-', '_')}-{found.version}.dist-info"
            metadata.mkdir()
            for file in ("METADATA", "entry_points.txt"):
                if text := found.read_text(file):
                    (metadata / file).write_text(text, "utf-8")
        yield folder
