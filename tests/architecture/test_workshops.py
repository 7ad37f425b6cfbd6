"""A workshop can be removed: its folder and its lines in the registry, and nothing else notices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree

import pytest
from faults.tiny import MANIFEST, PROGRAM

from aotc.cli.command_registry import OPTIONS, SECTIONS

ROOT = Path(__file__).parents[2]
WORKSHOPS = sorted(path.parent.name for path in ROOT.glob("aotc/commands/*/__init__.py"))
REGISTRY = "aotc/cli/command_registry.py"
SIGNERS = {"pkcs11"}
"""Those that an entry point names in pyproject.toml, and no line of the registry."""


def remove(tree: Path, name: str) -> None:
    """Remove a workshop from a copy of the sources, as its reader would do it."""
    rmtree(tree / "aotc" / "commands" / name)
    registry = tree / REGISTRY
    lines = registry.read_text("utf-8").splitlines(keepends=True)
    registry.write_text("".join(e for e in lines if f'"aotc.commands.{name}.' not in e), "utf-8")


def run(tree: Path, *command: str | Path, folder: Path | None = None) -> str:
    """What a command prints that takes aotc from these sources."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder or tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", WORKSHOPS)
def test_only_the_registry_names_a_workshop(name: str) -> None:
    folder = ROOT / "aotc" / "commands" / name
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in [*ROOT.glob("aotc/**/*.py"), *ROOT.glob("runtime/aotc_runtime/**/*.py")]
        if not path.is_relative_to(folder) and f"aotc.commands.{name}" in path.read_text("utf-8")
    }
    assert naming == (set() if name in SIGNERS else {REGISTRY})


@pytest.mark.parametrize("name", [name for name in WORKSHOPS if name not in SIGNERS])
def test_without_a_workshop_the_registry_still_holds_everything_else(
    name: str, tmp_path: Path
) -> None:
    copytree(ROOT / "aotc" / "commands", tmp_path / "aotc" / "commands")
    (tmp_path / "aotc" / "cli").mkdir()
    (tmp_path / REGISTRY).write_text((ROOT / REGISTRY).read_text("utf-8"), "utf-8")
    remove(tmp_path, name)
    left: dict[str, dict[str, object]] = {}
    exec(compile((tmp_path / REGISTRY).read_text("utf-8"), REGISTRY, "exec"), left)
    own = f"aotc.commands.{name}."
    kept = {
        section: tuple(place for place in places if not place.startswith(own))
        for section, places in SECTIONS.items()
    }
    options = {option: place for option, place in OPTIONS.items() if not place.startswith(own)}
    assert (left["SECTIONS"], left["OPTIONS"]) == (kept, options)
    assert (kept, options) != (SECTIONS, OPTIONS)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources without any workshop."""
    tree = tmp_path_factory.mktemp("bare")
    for folder in ("aotc", "targets"):
        copytree(ROOT / folder, tree / folder, ignore=ignore_patterns("__pycache__"))
    for name in WORKSHOPS:
        remove(tree, name)
    (tree / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    return tree


def test_without_any_workshop_the_floors_hold(bare: Path) -> None:
    said = run(bare, Path(sys.executable).with_name("lint-imports"), "--no-cache")
    assert "Layers of the toolchain KEPT" in said
    assert " 0 broken" in said


IMPORT_ALL = """
import importlib, pkgutil, aotc, sys
names = [m.name for m in pkgutil.walk_packages(aotc.__path__, "aotc.")]
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Of extras, or of an environment of its own, which a frontend needs.
        if error.name.partition(".")[0] not in {"h5py", "keras", "onnx", "tensorflow"}:
            raise
print(aotc.__path__[0], len(names))
"""


def test_without_any_workshop_every_module_is_imported(bare: Path) -> None:
    place, count = run(bare, "-c", IMPORT_ALL).split()
    assert place == str(bare / "aotc")
    assert int(count) > 150


def test_without_any_workshop_a_bundle_is_built_verified_and_called(
    bare: Path, tmp_path: Path
) -> None:
    (tmp_path / "tiny.py").write_text(PROGRAM)
    (tmp_path / "tiny.toml").write_text(MANIFEST)

    def aotc(*arguments: str) -> str:
        return run(bare, "-m", "aotc.cli.main", *arguments, folder=tmp_path)

    aotc("keygen", "k", "--plain")
    aotc("build", "tiny.toml", "-o", "tiny.aotb", "--key", "k.key")
    aotc("trust", "init", "--name", "tiny", "--key", "k.pub")
    aotc("verify", "tiny.aotb", "--trust", "trust.toml")
    called = (
        "import aotc_runtime, numpy\n"
        "bundle = aotc_runtime.load('tiny.aotb', trust='trust.toml')\n"
        "print(float(bundle['f'](numpy.ones(40000, numpy.float32)).sum()))"
    )
    assert run(bare, "-c", called, folder=tmp_path).split() == ["80000.0"]


def test_without_any_workshop_the_help_lists_the_others_and_options_are_refused(
    bare: Path, tmp_path: Path
) -> None:
    listed = run(bare, "-m", "aotc.cli.main", "--help")
    assert "\n  verify " in listed
    assert "\n  bench " not in listed
    done = subprocess.run(
        [sys.executable, "-m", "aotc.cli.main", "build", "tiny.toml", "--tune"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(bare)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "--tune is not in this installation of aotc" in done.stderr
