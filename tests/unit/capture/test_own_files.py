"""Files of the program itself, which provenance names by file and not by package."""

import importlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from capturing import Capture

import aotc
from aotc.capture.project_files import is_own, read_by, sources
from aotc_runtime.base.digest import sha256


def imported(monkeypatch: pytest.MonkeyPatch, place: Path, *names: str) -> None:
    """Import the first of the modules, with the others, from there; none stays after the test."""
    monkeypatch.syspath_prepend(str(place))
    for name in names:
        monkeypatch.setitem(sys.modules, name, sys)
        del sys.modules[name]
    importlib.import_module(names[0])


def test_neither_python_nor_packages_nor_aotc_are_own() -> None:
    for module in (json, np, aotc):
        file = module.__file__
        assert file is not None
        for root in (Path("/nowhere"), Path(file).parents[1]):
            assert not is_own(file, root) or module is np
    assert not is_own("<string>", Path("/nowhere"))


def test_an_environment_beside_the_manifest_is_not_own(tmp_path: Path) -> None:
    packages = tmp_path / ".venv" / "lib" / "python3.13" / "site-packages"
    assert not is_own(str(packages / "jax" / "core.py"), tmp_path)
    assert not is_own(str(packages / "jax" / "core.py"), tmp_path / "deploy")
    assert is_own(str(tmp_path / "model.py"), tmp_path)
    # Whoever keeps a manifest within an installed package means the files beside it.
    assert is_own(str(packages / "model" / "layers.py"), packages / "model")


def test_elsewhere_modules_are_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "own_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from own_package import layers\n")
    (package / "layers.py").write_text("ONE = 1\n")
    imported(monkeypatch, tmp_path / "src", "own_package", "own_package.layers")
    (tmp_path / "deploy").mkdir()
    found = sources(tmp_path / "deploy", {})
    assert found["own_package/__init__.py"] == sha256((package / "__init__.py").read_bytes())
    assert found["own_package/layers.py"] == sha256(b"ONE = 1\n")
    assert sources(tmp_path, {}).keys() >= {
        "src/own_package/__init__.py",
        "src/own_package/layers.py",
    }


@pytest.mark.parametrize("inside", [True, False])
def test_archives_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool) -> None:
    archive = tmp_path / "lib" / "modules.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("from_an_archive.py", "value = 1\n")
    imported(monkeypatch, archive, "from_an_archive")
    found = sources(tmp_path if inside else tmp_path / "deploy", {})
    name = "lib/modules.zip" if inside else "modules.zip"
    assert found[name] == sha256(archive.read_bytes())


def test_read_files_are_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, package = tmp_path / "deploy", tmp_path / "src" / "read_package"
    packages = root / ".venv" / "lib" / "python3.13" / "site-packages"
    for folder in (root / ".git", package / "data", packages):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    imported(monkeypatch, tmp_path / "src", "read_package")
    inside = [root / "sizes.txt", root / "app.toml", root / ".git" / "HEAD", packages / "a.txt"]
    outside = [package / "data" / "words.txt", tmp_path / "src" / "other.txt"]
    for path in (*inside, *outside):
        path.write_text(path.name)
    opened = [str(path.relative_to(root)) for path in inside] + [str(path) for path in outside]
    assert read_by([*opened, "absent.txt", ".venv"], root, {root / "app.toml"}) == {
        "read_package/data/words.txt": sha256(b"words.txt"),
        "sizes.txt": sha256(b"sizes.txt"),
    }


def test_elsewhere_files_own(capture: Capture, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "away.py").write_text("def twice(x):\n    return 2 * x\n")
    program = capture(
        f"""
        import sys
        sys.path.append({str(elsewhere)!r})
        from away import twice
        def f(x):
            return twice(x)
        """
    ).program
    assert set(program.sources) == {"program.py", "away.py"}
    covered = program.entry_points["f"].coverage.files
    assert {file: [each.name for each in found] for file, found in covered.items()} == {
        "away.py": ["twice"],
        "program.py": ["f"],
    }
    assert program.entry_points["f"].lines.functions["away.py"][0].line == 1


ASK = """
import sys, sysconfig, os
from aotc.capture import project_files as libraries
paths = sysconfig.get_paths()
def ours(path): return libraries.is_of_python_or_ours(path)
print(ours(os.path.join(paths["stdlib"], "json", "decoder.py")),
      ours(os.path.join(paths["purelib"], "jax", "core.py")),
      ours(os.path.join(os.path.dirname(libraries.__file__), "child.py")))
"""


def test_a_package_in_an_environment_is_not_taken_for_the_standard_library(tmp_path: Path) -> None:
    """site-packages lies within a folder of the standard library, also in an environment."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = (environment / "lib").glob("python3*/site-packages")
    folders = {Path(aotc.__path__[0]).parent, Path(msgspec.__file__).parents[1]}
    runtime = Path(sys.modules["aotc_runtime"].__path__[0]).parent
    (site / "found.pth").write_text("".join(f"{folder}\n" for folder in (*folders, runtime)))
    for python in (environment / "bin" / "python", Path(sys.executable)):
        done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["True", "False", "True"], done.stderr
