"""Builds of a model file with a cache, and what of them ran."""

from pathlib import Path

from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Kind
from tests.conftest import manifest_of

MANIFEST = manifest_of("""
name = "model"

[entry_points.f]
source = "{name}"
""")


class Rebuilt:
    """A model file with its manifest and a cache, in a folder of its own."""

    def __init__(self, folder: Path, name: str, data: bytes) -> None:
        self.file, self._manifest = folder / name, folder / "model.toml"
        self._store = folder / "cache"
        self.file.write_bytes(data)
        self._manifest.write_text(MANIFEST.format(name=name))

    def build(self) -> Built:
        """The bundle, from what the cache has."""
        cache, output = LocalStore(self._store, 10**9), self.file.with_suffix(".aotb")
        return build(self._manifest, output, BuildOptions(cache=cache))

    def replace(self, path: Path, old: bytes, new: bytes) -> None:
        """Change bytes of a file that it has once."""
        data = path.read_bytes()
        assert data.count(old) == 1
        path.write_bytes(data.replace(old, new))

    def tighten(self) -> None:
        """Change what the manifest says beside the model."""
        text = self._manifest.read_text()
        self._manifest.write_text(f"{text}tolerance = {{ rtol = 1e-7, atol = 1e-7 }}\n")


def ran(built: Built) -> dict[str, tuple[str, ...]]:
    """The tasks that no cache answered, with the reasons."""
    return {done.task.name: done.reasons for done in built.tasks if not done.cached}


def packages(built: Built) -> set[str]:
    """The distributions on which the result of reading a file depends."""
    (capture,) = (done for done in built.tasks if done.task.kind == Kind.CAPTURE)
    parts = [key.removeprefix("package ") for key in capture.task.parts]
    return {name for name in parts if name.isidentifier()}
