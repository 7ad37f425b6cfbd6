"""Tests of the catalogues of error codes, and of the call sites that use them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import NamedTuple, TypeGuard

from aotc.base.errors import family_of
from aotc_runtime.base.codes import Cause, catalogues, codes, read_codes
from aotc_runtime.verification.host_findings import TITLES
from scripts.error_codes import EXIT_CODES, FAMILIES, PAGE, page

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime" / "aotc_runtime"
SERVE = ROOT / "runtime" / "serve" / "aotc_serve"
TOOLCHAIN = ROOT / "aotc"

OF_RUNTIME, OWN = map(read_codes, catalogues)
ROWS = codes()

OF_COMMANDS = {"AOTC-E001", "AOTC-E003"}
"""The toolchain's, with which the runtime's command refuses its arguments and a closed stdout, too:
no program catches these.
"""

MAKERS = {"finding", "refusal"}
TEXTS = {"expected", "hint"}


def sources(package: Path) -> Iterator[Path]:
    packages = (package, SERVE) if package == RUNTIME else (package,)
    return (path for each in packages for path in each.rglob("*.py") if path.name != "codes.py")


def used(package: Path) -> set[str]:
    return {
        code
        for path in sources(package)
        for code in re.findall(r'"(AOTC-E\d{3})"', path.read_text())
    }


class Site(NamedTuple):
    """A call that makes a finding of a code.

    Attributes:
        place: The file and line.
        code: The code.
        causes: What it may give as `cause`; "" where it gives none, None where that is computed.
        given: The names of its other keyword arguments.
    """

    place: str
    code: str
    causes: frozenset[str] | None
    given: frozenset[str]

    @property
    def rows(self) -> list[Cause]:
        """The texts that its findings may have."""
        causes = [""] if self.causes is None else sorted(self.causes)
        return [ROWS[self.code].of(cause) for cause in causes]


class Found(NamedTuple):
    """The calls, the texts, and the files that import the makers from the runtime."""

    sites: list[Site]
    texts: set[str]
    of_runtime: set[Path]


@cache
def found() -> Found:
    """Return what is in the sources, each of which is parsed once."""
    made, texts, of_runtime = list[Site](), set[str](), set[Path]()
    for path in (*sources(TOOLCHAIN), *sources(RUNTIME)):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in MAKERS and node.args and _is_row(node.args[0]):
                    given = {keyword.arg or "**": keyword.value for keyword in node.keywords}
                    causes = _causes(given.pop("cause", ast.Constant("")), tree, node)
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    made.append(Site(place, node.args[0].value, causes, frozenset(given)))
            elif isinstance(node, ast.ImportFrom) and node.module == "aotc_runtime.base.errors":
                of_runtime |= {path for alias in node.names if alias.name in MAKERS}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    return Found(made, texts, of_runtime)


def _is_row(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and node.value in ROWS


def _causes(node: ast.expr, tree: ast.Module, call: ast.Call) -> frozenset[str] | None:
    """Return the values that an expression may have, by the assignments before the call."""
    match node:
        case ast.Constant():
            return frozenset({str(node.value)})
        case ast.IfExp():
            values = [node.body, node.orelse]
        case ast.Name():
            values = _assigned(node.id, tree, call)
        case _:
            values = []
    found = [_causes(value, tree, call) for value in values]
    if not found or None in found:
        return None
    return frozenset().union(*filter(None, found))


def _assigned(name: str, tree: ast.Module, call: ast.Call) -> list[ast.expr]:
    """Return what the function around a call assigns to a name."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.lineno <= call.lineno <= (node.end_lineno or 0)
    ]
    found = list[ast.expr]()
    for node in ast.walk(max(around, key=lambda each: each.lineno)) if around else ():
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found += _paired(target, node.value, name)
    return found


def _paired(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for each, item in zip(target.elts, value.elts, strict=True):
            yield from _paired(each, item, name)


def sites() -> list[Site]:
    return found().sites


def values_in(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_the_page_is_made_of_the_catalogues() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_no_code_is_in_both_catalogues() -> None:
    assert OWN.keys().isdisjoint(OF_RUNTIME)


def test_every_code_is_in_the_range_of_one_family() -> None:
    for code in ROWS:
        (family,) = (each for each in FAMILIES if code.startswith(each.prefixes))
        assert family.error is family_of(code)


def test_every_family_ends_with_an_exit_code_that_the_page_explains() -> None:
    assert {family.error.exit_code for family in FAMILIES} <= EXIT_CODES.keys()


def test_the_runtime_uses_all_of_its_codes_and_no_others() -> None:
    assert used(RUNTIME) - OF_COMMANDS == OF_RUNTIME.keys()


def test_the_toolchain_uses_all_of_its_codes_and_otherwise_the_runtimes() -> None:
    assert OWN.keys() <= used(TOOLCHAIN) <= ROWS.keys()


def texts() -> Iterator[tuple[str, Cause]]:
    for code, row in ROWS.items():
        yield code, row
        yield from ((f"{code} {name}", cause) for name, cause in row.causes.items())


def test_titles_are_short_noun_phrases_without_alternatives() -> None:
    for name, row in texts():
        words = row.title.split()
        assert 1 <= len(words) <= 8 and not row.title.endswith("."), name
        assert "or" not in words, name


def test_texts_fit_in_a_table() -> None:
    for name, row in texts():
        assert row.explanation.endswith("."), name
        for text in (row.title, row.explanation, row.hint, row.expected):
            assert text == text.strip() and not set(text) & {"\n", "|"}, name


def test_titles_of_host_findings_are_those_of_the_catalogue() -> None:
    named = {name: name.partition(" ") for name in TITLES}
    assert {name: ROWS[code].of(cause).title for name, (code, _, cause) in named.items()} == TITLES


def test_every_call_site_names_causes_of_its_code() -> None:
    for site in sites():
        assert (site.causes or set()) - {""} <= ROWS[site.code].causes.keys(), site


def test_every_cause_is_named_in_the_sources() -> None:
    named = found().texts | {f"unknown-{kind}" for kind in REFERENCES}
    causes = {(code, name) for code, row in ROWS.items() for name in row.causes}
    assert [each for each in causes if each[1] not in named and " ".join(each) not in named] == []


REFERENCES = {
    *("dimension", "entry-point", "input", "input-array", "mesh-axis", "precision", "target"),
    "weights-set",
}
"""Kinds of names, of which `aotc.config.manifest_problem.unknown_reference` makes causes."""


def test_every_finding_gives_the_values_of_its_placeholders() -> None:
    for site in sites():
        words = [getattr(row, name) for row in site.rows for name in TEXTS - site.given]
        assert site.given - TEXTS >= set().union(*map(values_in, words)), site


def test_the_toolchain_makes_findings_of_both_catalogues() -> None:
    own = {path for path in found().of_runtime if path.is_relative_to(TOOLCHAIN)}
    assert own == {TOOLCHAIN / "base" / "errors.py"}, "which adds the toolchain's"
