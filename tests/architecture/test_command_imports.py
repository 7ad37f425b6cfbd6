"""Imports of the command itself: only child processes and commands that need jax import it."""

import ast
from importlib.metadata import entry_points
from pathlib import Path

from aotc.cli.command_registry import CORE, Commands
from tests.running import printed, python

TOOLCHAIN = Path(__file__).parents[2] / "aotc"

CALCULATING = {"profiles_command"}

COMMANDS = sorted(
    [
        *TOOLCHAIN.glob("cli/*.py"),
        *(p for p in TOOLCHAIN.glob("commands/*/*_command.py") if p.stem not in CALCULATING),
    ]
)

HEAVY = "jax", "scipy", "dask", "cyclonedx"


def imported_by(path: Path) -> set[str]:
    """Modules of ours that a command imports, at its top or when it runs."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    every = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name for name in every if name.startswith("aotc")}


def test_no_command_imports_jax_or_what_is_optional() -> None:
    options = {point.module for point in entry_points(group="aotc.options")}
    names = sorted(options.union(*map(imported_by, COMMANDS)))
    assert {"aotc.pipeline.build", "aotc.commands.reproduce.rebuilt_bundle"} <= set(names)
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        f"print(*sorted(sys.modules.keys() & set({HEAVY})))\n"
    )
    assert printed(code, *names).split() == []


HELP = """
import sys
from aotc.cli.main import main
sys.argv = ["aotc", "keygen", "--help"]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_a_command_imports_its_own_code_alone() -> None:
    done = python("-c", HELP)
    imported = set(done.stderr.split())
    assert done.returncode == 0
    commands = {place.partition(":")[0] for place in CORE.values()}
    commands |= {point.module for point in entry_points(group="aotc.commands")}
    assert commands & imported == {"aotc.cli.keygen_command"}
    lazy = {"jax", "numpy", "pydantic", "aotc.commands", "aotc_runtime.loader.bundle_loader"}
    assert not imported & lazy


def test_signing_imports_nothing_of_build_manifests() -> None:
    code = "import sys, aotc.bundle.sign.bundle_signing; print(*sys.modules)"
    imported = {*printed(code).split()}
    assert not {"numpy", "pydantic", "aotc.config.build_manifest"} & imported


def test_a_command_is_registered_by_its_name() -> None:
    commands = Commands()
    assert {name: commands[name].name for name in commands} == {name: name for name in commands}
