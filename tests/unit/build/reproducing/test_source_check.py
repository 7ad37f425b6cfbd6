from __future__ import annotations

from pathlib import Path

from aotc.build.reproducing.recipe import Recipe
from aotc.build.reproducing.source_check import check_files
from aotc_runtime.digest import sha256

MANIFEST = """
schema = 1
name = "small"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
[weights.params]
source = "../../data/w.safetensors"
[entry_points.f]
function = "small:f"
bind = { params = "params" }
inputs.x = { shape = [4], dtype = "float32" }
"""


def recipe(files: dict[str, str], text: str = MANIFEST) -> Recipe:
    digest = sha256(text.encode())
    return Recipe("small.toml", digest, (), files, {}, "", None, "", ())


def test_a_file_elsewhere_is_read_if_the_recorded_manifest_names_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (tmp_path / "data").mkdir()
    (source / "deep").mkdir(parents=True)
    (tmp_path / "data" / "w.safetensors").write_bytes(b"weights")
    (tmp_path / "data" / "other").write_bytes(b"weights")
    (source / "shared.py").write_bytes(b"shared")
    manifest = source / "deep" / "small.toml"
    manifest.write_text(MANIFEST)
    named = {"../../data/w.safetensors": sha256(b"weights"), "../shared.py": sha256(b"shared")}
    assert list(check_files(manifest, source, recipe(named), None)) == []
    (finding,) = check_files(
        manifest, source, recipe({"../../data/other": sha256(b"weights")}), None
    )
    assert (finding.code, finding.where) == ("AOTC-E943", f"{source}/deep/../../data/other")


def test_another_manifest_names_no_files(tmp_path: Path) -> None:
    manifest = tmp_path / "source" / "deep" / "small.toml"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(MANIFEST + "# another")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.safetensors").write_bytes(b"weights")
    files = {"../../data/w.safetensors": sha256(b"weights")}
    found = list(check_files(manifest, tmp_path / "source", recipe(files), None))
    assert [finding.code for finding in found] == ["AOTC-E942", "AOTC-E943"]
    assert found[1].found.startswith("a path that leads out")


def test_a_module_elsewhere_is_the_file_of_its_digest_below_the_source_folder(
    tmp_path: Path,
) -> None:
    source = tmp_path / "source"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.safetensors").write_bytes(b"weights")
    for place, data in (("a", b"other"), ("lib/b", b"shared"), ("deep", b"")):
        (source / place / "app").mkdir(parents=True)
        (source / place / "app" / "shared.py").write_bytes(data)
    (source / "deep" / "app" / "shared.py").unlink()
    manifest = source / "deep" / "small.toml"
    manifest.write_text(MANIFEST)
    found = recipe({"app/shared.py": sha256(b"shared")})
    assert list(check_files(manifest, source, found, None)) == []
    (source / "lib" / "b" / "app" / "shared.py").write_bytes(b"changed")
    (finding,) = check_files(manifest, source, found, None)
    assert (finding.code, finding.where) == ("AOTC-E943", str(source / "a" / "app" / "shared.py"))
