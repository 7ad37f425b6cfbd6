"""The verification steps stand in the code under the numbers of docs/reference/trust-policy.md."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import aotc_runtime
from aotc_runtime.verification import bundle_examination, host_compatibility
from tests.conftest import ROOT

_CITED = re.compile(r"[Ss]teps? ((?:\d+|, but [a-z ]+|, (?:and )?|\s|and|to|the \w+ (?:of|to))+)")


class Step(NamedTuple):
    """A row of the page's table."""

    number: int
    gate: str
    codes: frozenset[str]


def table() -> list[Step]:
    """docs/reference/trust-policy.md, The steps."""
    section = _section("## The steps", "### Order of a load")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    return [
        Step(int(row[0]), row[1].strip("`"), _codes_in(row[3]))
        for row in rows
        if row and row[0].isdigit()
    ]


def _section(start: str, end: str) -> str:
    page = (ROOT / "docs" / "reference" / "trust-policy.md").read_text("utf-8")
    return page[page.index(start) : page.index(end)]


def _codes_in(cell: str) -> frozenset[str]:
    """`E103 to E106, E320`."""
    ranges = re.findall(r"E(\d+)(?: to E(\d+))?", cell)
    return frozenset(
        f"AOTC-E{number}"
        for first, last in ranges
        for number in range(int(first), int(last or first) + 1)
    )


def numbers_in(text: str) -> set[int]:
    """`1, 2 and 5 to 7`."""
    ranges = re.findall(r"(\d+)(?: to (\d+))?", text)
    return {
        number for first, last in ranges for number in range(int(first), int(last or first) + 1)
    }


def cited(text: str | None) -> set[int]:
    """The numbers of steps that a docstring names; none if it names no page."""
    found = _CITED.search(text or "")
    return numbers_in(found[1]) if found else set()


class Citing(NamedTuple):
    """A function whose docstring names its steps, or its module's. codes: that it refuses with."""

    where: str
    steps: set[int]
    codes: set[str]


def citing() -> Iterator[Citing]:
    """Every such function of the runtime."""
    folder = Path(aotc_runtime.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        module = ast.parse(file.read_text("utf-8"))
        whole = cited(ast.get_docstring(module))
        for function in ast.walk(module):
            if isinstance(function, ast.FunctionDef):
                steps = cited(ast.get_docstring(function)) or whole
                nodes = ast.walk(function)
                texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
                codes = {each for each in texts if re.fullmatch(r"AOTC-E\d{3}", each)}
                if steps:
                    yield Citing(f"{file.relative_to(folder)} {function.name}", steps, codes)


def test_the_page_counts_its_steps() -> None:
    assert [step.number for step in table()] == [*range(1, 12)]


def test_a_check_refuses_with_codes_of_the_steps_whose_numbers_it_has() -> None:
    codes = {step.number: step.codes for step in table()}
    found = list(citing())
    assert {step for each in found for step in each.steps} == {*codes}
    assert sum(bool(each.codes) for each in found) > 25
    strange = {
        each.where: sorted(each.codes - frozenset().union(*(codes[step] for step in each.steps)))
        for each in found
    }
    assert {where: codes for where, codes in strange.items() if codes} == {}


def test_gates_open_in_the_order_of_the_page() -> None:
    source = ast.parse(inspect.getsource(bundle_examination.examine))
    opened = [
        (node.lineno, node.args[0].value)
        for node in ast.walk(source)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "gates.append"
        and isinstance(node.args[0], ast.Constant)
    ]
    stated = [step.gate for step in table() if step.gate and step.gate != "channel"]
    assert [gate for _, gate in sorted(opened)] == stated


def test_a_host_is_asked_in_the_order_of_the_page() -> None:
    """But for accelerators, of which everything is told together."""
    step_of = {code: step.number for step in table() for code in step.codes if step.number > 7}
    asked = [
        step_of[code]
        for check in host_compatibility.CHECKS
        if check is not host_compatibility.check_device
        for code in sorted(set(re.findall(r"AOTC-E\d{3}", inspect.getsource(check))))
    ]
    assert asked == sorted(asked) and {*asked} == {8, 9, 10}
