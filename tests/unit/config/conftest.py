"""A build manifest without problems, to be spoiled by one edit at a time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.base.errors import BuildManifestError
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from aotc_runtime.base.errors import Finding

GOOD = """\
schema = 1
name = "digits"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]

[weights.params]
source = "params.safetensors"

[dimensions.batch]
range = [1, 64]
profiles = [1, 8, 64]

[entry_points.predict]
function = "digits.model:predict"
bind = { params = "params" }
inputs.image = { shape = ["batch", 64], dtype = "float32" }
tolerance = { rtol = 1e-5, atol = 1e-6 }

[entry_points.predict.fixtures]
seed = 0
"""


@pytest.fixture
def good() -> str:
    """The manifest's text; line 6 opens its weights, 9 its dimension, 13 its entry point."""
    return GOOD


@pytest.fixture
def manifest_folder(tmp_path: Path) -> Path:
    """A folder with the files that the manifest names."""
    (tmp_path / "params.safetensors").write_bytes(b"")
    (tmp_path / "fixtures.npz").write_bytes(b"")
    return tmp_path


@pytest.fixture
def read(manifest_folder: Path) -> Callable[[str | bytes], BuildManifest]:
    """Read a text or bytes as a build manifest."""

    def from_text(text: str | bytes) -> BuildManifest:
        path = manifest_folder / "m.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_build_manifest(path)

    return from_text


@pytest.fixture
def findings_of(
    read: Callable[[str | bytes], BuildManifest], manifest_folder: Path
) -> Callable[[str | bytes], list[Finding]]:
    """Return the diagnostics of a text; `where` begins with "m.toml"."""

    def from_text(text: str | bytes) -> list[Finding]:
        with pytest.raises(BuildManifestError) as caught:
            read(text)
        folder = f"{manifest_folder}/"
        assert all(finding.where.startswith(folder) for finding in caught.value.findings)
        return [
            Finding(f.code, f.where.removeprefix(folder), f.expected, f.found, f.hint)
            for f in caught.value.findings
        ]

    return from_text


@pytest.fixture
def spoiled(
    good: str, findings_of: Callable[[str | bytes], list[Finding]]
) -> Callable[[str, str], list[Finding]]:
    """Return the diagnostics of the good manifest after a replacement in its text."""

    def from_edit(old: str, new: str) -> list[Finding]:
        assert old in good
        return findings_of(good.replace(old, new))

    return from_edit
