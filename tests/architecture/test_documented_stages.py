"""The steps of docs/trust.md stand in the code, under the numbers and in the order of the page."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import aotc_runtime
from aotc_runtime.verification import bundle_examination, host_compatibility, verify_bundle
from tests.conftest import ROOT

MAKERS = (
    verify_bundle.parse,
    verify_bundle.collect,
    verify_bundle.authenticate,
    verify_bundle.unpack,
    verify_bundle.accept,
    verify_bundle.evaluate,
    verify_bundle.require,
    verify_bundle.Compatible.finish,
)
"""The makers of the stages, in their order (tests/hostile/test_stages.py)."""

_CITED = re.compile(
    r"docs/trust\.md ((?:\d+|, but [a-z ]+|, (?:and )?|\s|and|to|the \w+ (?:of|to))+)"
)


class Step(NamedTuple):
    """A row of the page's table."""

    number: int
    gate: str
    codes: frozenset[str]


def table() -> list[Step]:
    """docs/trust.md, The steps."""
    section = _section("## The steps", "### When what happens")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()]
    return [
        Step(int(row[0]), row[1].strip("`"), _codes_in(row[3]))
        for row in rows
        if row and row[0].isdigit()
    ]


def _section(start: str, end: str) -> str:
    page = (ROOT / "docs" / "trust.md").read_text("utf-8")
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
    """A function that names its steps (own), or whose module does. codes: that it refuses with.
    calls: what it calls, by name.
    """

    where: str
    name: str
    own: bool
    steps: set[int]
    codes: set[str]
    calls: set[str]


def citing() -> Iterator[Citing]:
    """Every such function of the runtime."""
    folder = Path(aotc_runtime.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        module = ast.parse(file.read_text("utf-8"))
        whole = cited(ast.get_docstring(module))
        for function in ast.walk(module):
            if isinstance(function, ast.FunctionDef):
                own = cited(ast.get_docstring(function))
                nodes = [*ast.walk(function)]
                texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
                codes = {each for each in map(str, texts) if re.fullmatch(r"AOTC-E\d{3}", each)}
                calls = {
                    getattr(node.func, "id", getattr(node.func, "attr", ""))
                    for node in nodes
                    if isinstance(node, ast.Call)
                }
                if own or whole:
                    where = f"{file.relative_to(folder)} {function.name}"
                    yield Citing(where, function.name, bool(own), own or whole, codes, calls)


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


def test_who_has_checks_made_has_their_numbers() -> None:
    found = [each for each in citing() if each.own]
    steps: dict[str, set[int]] = {}
    for each in found:
        steps.setdefault(each.name, set()).update(each.steps)
    lacking = {
        each.where: {
            name: steps[name] for name in each.calls & {*steps} if steps[name] - each.steps
        }
        for each in found
    }
    assert {where: calls for where, calls in lacking.items() if calls} == {}


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__qualname__)
def test_a_stage_has_passed_the_steps_whose_numbers_its_maker_has(
    maker: Callable[..., object],
) -> None:
    rows = re.findall(r"^\| `\w+` \| `(?:\w+\.)?(\w+)\(.*?\)` \| (.*) \|$", _stages(), re.MULTILINE)
    passed = {name: numbers_in(text.replace("step ", "")) for name, text in rows}
    assert cited(inspect.getdoc(maker)) == passed[maker.__name__]


def _stages() -> str:
    return _section("### Stages in the code", "### Notes to the steps")


def test_stages_are_made_in_the_order_of_the_page_and_of_its_numbers() -> None:
    rows = re.findall(r"^\| `\w+` \| `(?:\w+\.)?(\w+)\(", _stages(), re.MULTILINE)
    assert rows == [maker.__name__ for maker in MAKERS]
    # The end of step 6 is waited for last: When what happens.
    steps = [cited(inspect.getdoc(maker)) for maker in MAKERS[:-1]]
    assert all(min(one) <= min(next) and max(one) <= max(next) for one, next in pairwise(steps))
    assert cited(inspect.getdoc(MAKERS[-1])) == {6}


def test_stages_stand_in_their_order() -> None:
    lines = [inspect.getsourcelines(maker)[1] for maker in MAKERS if maker is not MAKERS[-1]]
    assert lines == sorted(lines)


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
