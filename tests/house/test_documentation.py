"""Codes, commands and pages agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest

from aotc.cli.group import cli
from aotc.errors import BUILD_FAMILIES
from aotc_runtime.errors import family_of

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"AOTC-E\d{3}")
SOURCES = [*(ROOT / "aotc").rglob("*.py"), *(ROOT / "runtime").rglob("*.py")]


def codes_in_sources() -> set[str]:
    return {code for path in SOURCES for code in re.findall(r'"(AOTC-E\d{3})"', path.read_text())}


def documented() -> dict[str, str]:
    """Code to the heading it stands under in docs/errors.md."""
    found: dict[str, str] = {}
    heading = ""
    for line in (ROOT / "docs" / "errors.md").read_text().splitlines():
        if line.startswith("## "):
            heading = line
        elif line.startswith("| AOTC-E"):
            code = CODE.match(line.removeprefix("| "))
            assert code, line
            assert code.group() not in found, f"{code.group()} stands twice"
            found[code.group()] = heading
    return found


def test_every_code_is_documented_and_every_documented_code_exists() -> None:
    assert codes_in_sources() == set(documented())


def test_every_code_stands_under_its_family() -> None:
    for code, heading in documented().items():
        family = family_of(code, BUILD_FAMILIES)
        assert family.__name__ in heading, code


def test_published_exit_codes_are_those_of_the_families() -> None:
    table = (ROOT / "docs" / "errors.md").read_text()
    for code in documented():
        exit_code = family_of(code, BUILD_FAMILIES).exit_code
        row = next(line for line in table.splitlines() if line.startswith(f"| {exit_code} |"))
        assert any(code[5:].startswith(p.rstrip("x")) for p in re.findall(r"E\d+x*", row)), code


def commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name, command in sorted(cli.commands.items()):
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", c) for sub, c in sorted(command.commands.items())]
        else:
            found.append((name, command))
    return found


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_every_command_has_help_and_a_line_in_the_documentation(
    name: str, command: click.Command
) -> None:
    assert command.help and command.get_short_help_str()
    assert f"`aotc {name}" in (ROOT / "docs" / "commands.md").read_text()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")]:
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_printed_program_over_several_devices_is_the_one_that_is_built() -> None:
    page = (ROOT / "docs" / "build-manifest.md").read_text()
    section = page.partition("\n## Programs over several devices\n")[2]
    printed = section.partition("```toml\n")[2].partition("```\n")[0]
    built = (ROOT / "manifests" / "parallel.toml").read_text()
    assert tomllib.loads(printed) == tomllib.loads(built)
