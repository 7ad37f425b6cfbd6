"""Commands and pages agree with each other."""

import argparse
import ast
import re
from pathlib import Path

import click
import pytest

from aotc.cli.command_group import cli
from aotc_runtime import __main__ as runtime
from scripts import command_reference
from scripts.command_reference import is_ours
from tests.documented import code_of

ROOT = Path(__file__).parents[2]
TEXTS = (".md", ".py", ".toml")


def commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name, command in sorted(cli.commands.items()):
        if not is_ours(command):
            continue
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", c) for sub, c in sorted(command.commands.items())]
        else:
            found.append((name, command))
    return found


def is_phrase(text: str) -> bool:
    """Return whether a help text is short, capitalized, and without a period at its end."""
    return 0 < len(text.split()) <= 8 and not text[0].islower() and text[-1] != "."


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_help_of_a_command_is_short_and_complete(name: str, command: click.Command) -> None:
    summary = command.get_short_help_str(1000)
    assert summary.endswith(".") and is_phrase(summary[:-1]), summary
    assert f"\naotc {name}" in (command.help or ""), "an example"
    texts = {each.name: each.help or "" for each in command.params}
    assert [(option, text) for option, text in texts.items() if not is_phrase(text)] == []


def test_help_of_the_runtime_is_short_and_complete() -> None:
    parser = runtime._parser(runtime._others([]))
    (commands,) = (each for each in parser._actions if each.dest == "command")
    assert isinstance(commands, argparse._SubParsersAction)
    for command in commands.choices.values():
        assert is_phrase((command.description or "").removesuffix("."))
        texts = [(each.help or "").partition(" (default: ")[0] for each in command._actions]
        assert [text for text in texts if not is_phrase(text)] == []


def test_the_reference_of_commands_is_generated() -> None:
    assert command_reference.PAGE.read_text("utf-8") == command_reference.page(), "run `make docs`"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]:
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_printed_program_over_several_devices_is_part_of_the_one_that_is_built() -> None:
    page = ROOT / "docs" / "reference" / "build-manifest.md"
    printed = code_of("text", page, "Programs over several devices").splitlines()
    built = (ROOT / "manifests" / "parallel.toml").read_text("utf-8").splitlines()
    assert set(printed) <= set(built)


def test_installations_of_extras_name_the_clone_and_the_runtime_in_it() -> None:
    """Neither distribution is on a package index, and `aotc` alone does not bring the other."""
    folders = ("aotc", "runtime", "docs", "manifests")
    files = [f for folder in folders for f in (ROOT / folder).rglob("*.*") if f.suffix in TEXTS]
    bare = re.compile(r"pip install '(?:aotc[-_a-z]*|\.)\[")
    assert [str(f) for f in [*files, *ROOT.glob("*.md")] if bare.search(f.read_text())] == []


@pytest.mark.parametrize("package", ["aotc", "runtime/aotc_runtime", "runtime/serve/aotc_serve"])
def test_the_page_on_architecture_names_every_package(package: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    tables = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    found = {path.stem for path in (ROOT / package).iterdir() if not path.name.startswith("_")}
    packages = found - {"py", "targets"}  # py.typed, and the built-in targets of an installation
    assert len(packages) >= 8
    assert not [name for name in sorted(packages) if f"`{name}`" not in tables]


def test_the_page_on_architecture_names_every_command_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    (row,) = (line for line in page.splitlines() if "| `commands` |" in line)
    named = row.split("|")[2].partition(": ")[2].strip().split(", ")
    assert named == sorted(path.parent.name for path in ROOT.glob("aotc/commands/*/__init__.py"))


def test_docstrings_open_with_what_a_thing_is_or_does() -> None:
    question = re.compile(r"(How|So|What|When|Where|Whether|Which|Who|Whose|Why)\b")
    places = ("aotc", "benchmarks", "manifests", "runtime", "scripts", "tests")
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
        for place in places
        for path in sorted((ROOT / place).rglob("*.py"))
        if re.search(rf'"""\s*{question.pattern}', text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and question.match(ast.get_docstring(node) or "")
    ]
    assert found == []
