"""Optional commands can be removed: their folders and their entry points, and nothing notices."""

import sys
import tomllib
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree

import pytest
from faults.tiny import MANIFEST, PROGRAM

from tests.running import python

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(path.parent.name for path in ROOT.glob("aotc/commands/*/__init__.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
POINTS: dict[str, dict[str, str]] = PROJECT["entry-points"]


def run(tree: Path, *command: str | Path, folder: Path | None = None) -> str:
    """Return what a command prints that takes aotc from these sources."""
    done = python(*command, folder=folder or tree, PYTHONPATH=str(tree))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_entry_points_alone_name_an_optional_command(name: str) -> None:
    folder = ROOT / "aotc" / "commands" / name
    naming = {
        path.relative_to(ROOT).as_posix()
        for package in ("aotc", "runtime/aotc_runtime", "runtime/serve/aotc_serve")
        for path in (ROOT / package).rglob("*.py")
        if not path.is_relative_to(folder) and f"aotc.commands.{name}" in path.read_text("utf-8")
    }
    assert naming == set()
    places = [place for group in POINTS.values() for place in group.values()]
    assert any(place.startswith(f"aotc.commands.{name}.") for place in places)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources without any optional command, installed in place of these."""
    tree = tmp_path_factory.mktemp("bare")
    for folder in ("aotc", "targets"):
        copytree(ROOT / folder, tree / folder, ignore=ignore_patterns("__pycache__"))
    for name in COMMANDS:
        rmtree(tree / "aotc" / "commands" / name)
    installed = tree / f"aotc-{PROJECT['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Name: aotc\nVersion: {PROJECT['version']}\n", "utf-8")
    with (installed / "entry_points.txt").open("w", encoding="utf-8") as file:
        for group, points in POINTS.items():
            file.write(f"[{group}]\n")
            for name, place in points.items():
                if not place.startswith("aotc.commands."):
                    file.write(f"{name} = {place}\n")
    (tree / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    return tree


def test_without_optional_commands_the_layers_hold(bare: Path) -> None:
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
        if error.name.partition(".")[0] not in {"h5py", "keras", "onnx", "openvino", "tensorflow"}:
            raise
print(aotc.__path__[0], len(names))
"""


def test_without_optional_commands_every_module_is_imported(bare: Path) -> None:
    place, count = run(bare, "-c", IMPORT_ALL).split()
    assert place == str(bare / "aotc")
    assert int(count) > 150


def test_build_without_optional_commands_verifies_and_calls(bare: Path, tmp_path: Path) -> None:
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


def test_help_without_optional_commands_lists_the_others(bare: Path, tmp_path: Path) -> None:
    listed = run(bare, "-m", "aotc.cli.main", "--help")
    assert "\n  verify " in listed
    assert "\n  bench " not in listed
    tuning = ("-m", "aotc.cli.main", "build", "tiny.toml", "--tune")
    done = python(*tuning, folder=tmp_path, PYTHONPATH=str(bare))
    assert done.returncode == 2
    assert "--tune is not in this installation of aotc" in done.stderr
