"""Every check of a module, removed: what the source is without it.

A check raises, yields or collects a finding, skips what others have to pass, or answers whether
something holds; each side of the `or` or `and` that it asks is one of its own, and so is which side
of a limit the limit itself is on.
"""

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeGuard

from .checkout import ROOT

LISTED = tomllib.loads(Path(__file__).with_name("modules.toml").read_text("utf-8"))
"""As its first lines say."""

KINDS = ("refusals", "checks", "decisions")
"""Each with all that is removed for those before."""

_CHECKING = re.compile(r"_?(raise_if|check|require|refuse)")
"""How functions begin that are called for what they raise."""

_TOLD = {"expected", "found", "given", "hint", "more", "shown", "where"}
"""Names of what people read."""

_ANSWERS = {"all", "any", "bool", "isinstance"}

type Change = tuple[ast.stmt | ast.expr, str]
"""What is removed, and what stands there then."""


class Mutant(NamedTuple):
    """One check less.

    file: in the checkout.  lines: that are changed.  text: of the check.  by: what stands there
    then.  source: of the file without it.  part: of it, the function or class.
    """

    file: Path
    lines: range
    text: str
    by: str
    source: str
    part: str

    @property
    def key(self) -> str:
        """Another one once its function or class has changed."""
        return hashlib.sha256(f"{self.file}\n{self.part}".encode()).hexdigest()[:20]

    @property
    def label(self) -> str:
        text = " ".join(self.text.split())
        by = "" if self.by in ("pass", "yield from ()") else f" -> {self.by}"
        return f"{self.file}:{self.lines.start} {text[:90]}{by}"


def mutants(texts: Sequence[str] = ()) -> Iterator[Mutant]:
    """Every check, removed. texts: of which one has to stand in the path; none for all."""
    for kind in KINDS:
        for folder, names in LISTED[kind].items():
            for name in names.split():
                for path in sorted((ROOT / folder).glob(f"{name}.py")):
                    file = path.relative_to(ROOT)
                    if not texts or any(text in str(file) for text in texts):
                        yield from _of(file, KINDS.index(kind))


def equivalent(mutant: Mutant) -> str:
    """Return why no input can tell a mutant from the code; "" if one can."""
    reasons: dict[str, str] = LISTED["equivalent"].get(mutant.file.name, {})
    return reasons.get(mutant.text) or reasons.get(f"{mutant.text} -> {mutant.by}", "")


def needless_excuses() -> list[str]:
    """Return what `equivalent` has, as file and text, and no mutant is any more."""
    known = {(each.file.name, each.text) for each in mutants()}
    known |= {(each.file.name, f"{each.text} -> {each.by}") for each in mutants()}
    stated = [(file, text) for file, reasons in LISTED["equivalent"].items() for text in reasons]
    return [f"{file} {text}" for file, text in stated if (file, text) not in known]


def _of(file: Path, kind: int) -> Iterator[Mutant]:
    text = (ROOT / file).read_text("utf-8")
    seen = set()
    tree = ast.parse(text)
    for node, by in _changes(tree, kind):
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, by)
        if place not in seen:
            seen.add(place)
            yield _replaced(file, text, tree, node, by)


def _changes(tree: ast.AST, kind: int) -> Iterator[Change]:
    """Everything that can be removed. kind: of KINDS."""
    answers, decisions = kind >= KINDS.index("checks"), kind >= KINDS.index("decisions")
    wording = {id(part) for node in ast.walk(tree) for part in _wording(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            yield node, "pass"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            yield node, "yield from ()"
        elif _collects(node) or (isinstance(node, ast.Expr) and _checks(node.value)):
            yield node, "pass"
        elif isinstance(node, ast.If) and _refuses(node.body):
            yield from _operands(node.test)
            yield from _limits(node.test)
        elif answers and isinstance(node, ast.If) and _leaves(node.body[0]):
            yield node.test, "False"
            yield from _operands(node.test)
            yield from _limits(node.test)
        elif answers and isinstance(node, ast.Return) and _answers(node.value):
            yield node.value, "True"
            yield node.value, "False"
            yield from _operands(node.value)
            yield from _limits(node.value)
        elif answers and isinstance(node, ast.Return) and _chooses(node.value):
            yield node.value.test, "True"
            yield node.value.test, "False"
        if decisions and id(node) not in wording:
            yield from _decisions(node)


def _wording(node: ast.AST) -> Iterator[ast.AST]:
    """Yield code that only decides about a message's form."""
    told = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg in _TOLD)
    if isinstance(node, ast.Assign):
        told = all(_name_of(target) in _TOLD for target in node.targets)
    if told:
        yield from ast.walk(node)


def _decisions(node: ast.AST) -> Iterator[Change]:
    """Yield what else depends on a condition, as if it held always or never."""
    if isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield test, "True"
            yield from _operands(test)
            yield from _limits(test)
    elif isinstance(node, ast.IfExp):
        yield node.test, "True"
        yield node.test, "False"
    elif isinstance(node, ast.If) and not _refuses(node.body):
        yield node.test, "False"
        yield from _operands(node.test)
        yield from _limits(node.test)


def _operands(test: ast.expr) -> Iterator[Change]:
    """Each side of an `or` (which holds never), or of an `and` (which holds always)."""
    if isinstance(test, ast.BoolOp):
        neutral = "False" if isinstance(test.op, ast.Or) else "True"
        for operand in test.values:
            yield operand, neutral


def _limits(test: ast.expr) -> Iterator[Change]:
    """Each comparison with a limit, which the limit itself then is on the other side of."""
    swapped: dict[type[ast.cmpop], ast.cmpop] = {
        ast.Lt: ast.LtE(),
        ast.LtE: ast.Lt(),
        ast.Gt: ast.GtE(),
        ast.GtE: ast.Gt(),
    }
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            for index, op in enumerate(node.ops):
                if type(op) in swapped:
                    ops = [*node.ops[:index], swapped[type(op)], *node.ops[index + 1 :]]
                    other = ast.Compare(node.left, ops, node.comparators)
                    yield node, f"({ast.unparse(other)})"


def _refuses(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Raise | ast.Yield | ast.YieldFrom) or _collects(node)
        for statement in body
        for node in ast.walk(statement)
    )


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return | ast.Continue)


def _answers(value: ast.expr | None) -> TypeGuard[ast.expr]:
    """Return whether an expression is true or false by its form."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in _ANSWERS
    if isinstance(value, ast.BoolOp):
        return all(_answers(operand) for operand in value.values)
    return isinstance(value, ast.Compare) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    )


def _chooses(value: ast.expr | None) -> TypeGuard[ast.IfExp]:
    """Return whether one of two values is given, neither of which is a text for people."""
    return isinstance(value, ast.IfExp) and not any(
        isinstance(each, ast.JoinedStr) for each in (value.body, value.orelse)
    )


def _collects(node: ast.AST) -> TypeGuard[ast.stmt]:
    """Return whether a statement adds to findings, to be raised together."""
    if isinstance(node, ast.AugAssign):
        return _name_of(node.target).endswith("findings")
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and _name_of(node.value.func.value).endswith("findings")
    )


def _checks(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and bool(_CHECKING.match(_name_of(node.func)))


def _name_of(node: ast.expr) -> str:
    """The last part of a name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _replaced(
    file: Path, text: str, tree: ast.Module, node: ast.stmt | ast.expr, by: str
) -> Mutant:
    lines = text.splitlines(keepends=True)
    assert node.end_lineno is not None and node.end_col_offset is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    # Columns of the syntax tree count bytes.
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    padding = "\n" * (last - first) if isinstance(node, ast.stmt) else ""
    replaced = head + by + padding + tail
    around = [each for each in tree.body if each.lineno <= node.lineno][-1]
    part = [*lines[around.lineno - 1 : first], replaced, *lines[last + 1 : around.end_lineno]]
    source = "".join([*lines[:first], replaced, *lines[last + 1 :]])
    changed = range(node.lineno, node.end_lineno + 1)
    kept = [*lines[first:last], lines[last].encode()[: node.end_col_offset].decode()]
    segment = "".join(kept).encode()[node.col_offset :].decode()
    return Mutant(file, changed, segment, by, source, "".join(part))
