"""Remove every check of the readers and the verifier in turn, and list what no attack notices.

`make mutate`, minutes: each place that raises or yields a finding is disabled in a process of
its own, as is each side of an `or` that guards one, and all attacks run against what is left; if
none notices, the tests of what attacks do not reach.
"""

from __future__ import annotations

import ast
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import pytest

import aotc_runtime

from .attacks import Attacks
from .weakening import inside

RUNTIME = Path(aotc_runtime.__file__).parent
PLACES = (
    "formats",
    "verification",
    "canonical.py",
    "schema/tree.py",
    "system/store.py",
    "serving/readiness.py",
    "serving/weights.py",
)
NOT_CHECKS = ("report.py",)

TESTS = (
    "tests/unit/runtime/verification",
    "tests/hostile/test_archives.py",
    "tests/hostile/test_certificates.py",
    "tests/hostile/test_policy_rules.py",
    "tests/hostile/test_readiness.py",
)
"""Of policies that say nothing clear or accept the bundle, and of limits and fixtures."""

SECONDS = 120
"""A reader that never ends has been noticed."""

UNREACHABLE: dict[tuple[str, str], str] = {
    (
        "tar.py",
        'raise _refuse("AOTC-E103", where, "a tar archive with its end mark", "a truncated file")',
    ): "a part of a header has a wrong sum, and none at all is no end mark (E103)",
    (
        "tar.py",
        'raise _refuse("AOTC-E103", f"{where} {member.name}", f"{member.size} bytes", found)',
    ): "behind the end of the file there is no header (E103)",
    (
        "tensors.py",
        'raise _refuse("AOTC-E131", where, "at least 8 bytes", f"{len(data)} bytes")',
    ): "so short a header is no JSON object (E131)",
    (
        "tensors.py",
        "length > limits.TENSOR_HEADER_BYTES_MAX",
    ): "would take a file of 100 MiB",
}
"""Survivors that no input can tell, by file and text, each with the reason."""


class Mutant(NamedTuple):
    """One check less. text: of the check.  source: of the file without it."""

    file: Path
    line: int
    text: str
    source: str

    @property
    def label(self) -> str:
        text = " ".join(self.text.split())
        return f"{self.file.relative_to(RUNTIME)}:{self.line} {text[:90]}"


def mutants() -> Iterator[Mutant]:
    """Every check, removed."""
    for place in PLACES:
        path = RUNTIME / place
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            if file.name not in NOT_CHECKS:
                yield from _of(file)


def _of(file: Path) -> Iterator[Mutant]:
    text = file.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise):
            yield _replaced(file, text, node, "pass")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield):
            yield _replaced(file, text, node, "yield from ()")
        elif isinstance(node, ast.Expr) and _calls(node.value, "raise_if", "check_keys"):
            yield _replaced(file, text, node, "pass")
        elif isinstance(node, ast.If) and _refuses(node.body):
            yield from _operands(file, text, node.test)


def _operands(file: Path, text: str, test: ast.expr) -> Iterator[Mutant]:
    """Each side of an `or` (which holds never), or of an `and` (which holds always)."""
    if isinstance(test, ast.BoolOp):
        neutral = "False" if isinstance(test.op, ast.Or) else "True"
        for operand in test.values:
            yield _replaced(file, text, operand, neutral)


def _refuses(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Raise | ast.Yield)
        for statement in body
        for node in ast.walk(statement)
    )


def _calls(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _replaced(file: Path, text: str, node: ast.stmt | ast.expr, by: str) -> Mutant:
    lines = text.splitlines(keepends=True)
    assert node.end_lineno is not None and node.end_col_offset is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    # Columns of the syntax tree count bytes.
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    padding = "\n" * (last - first) if isinstance(node, ast.stmt) else ""
    source = "".join([*lines[:first], head + by + padding + tail, *lines[last + 1 :]])
    return Mutant(file, node.lineno, ast.get_source_segment(text, node) or "", source)


def apply(mutant: Mutant) -> None:
    """Let the functions of this process be those of the mutant."""
    name = ".".join(["aotc_runtime", *mutant.file.relative_to(RUNTIME).with_suffix("").parts])
    module = importlib.import_module(name)
    code = compile(mutant.source, str(mutant.file), "exec")
    changed = {part.co_qualname: part for part in inside(code)}
    owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    for owner in owners:
        for value in list(vars(owner).values()):
            if isinstance(value, FunctionType) and value.__module__ == name:
                value.__code__ = changed[value.__code__.co_qualname]


def suite(folder: Path) -> int:
    """Run the tests in this process; 0 if all pass. folder: where the bundle lies already."""
    # Workers of one test run share their bundles (tests/conftest.py).
    os.environ["PYTEST_XDIST_WORKER"] = f"mutant-{os.getpid()}"
    place = f"--basetemp={folder}/{os.getpid()}"
    return pytest.main([*TESTS, place, "-q", "-x", "-p", "no:cacheprovider"])


def start(mutant: Mutant | None, attacks: Callable[[], int]) -> int:
    """The process that runs the attacks against the mutant."""
    process = os.fork()
    if process:
        return process
    outcome = 1
    try:
        if mutant is not None:
            for descriptor in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            apply(mutant)
        signal.alarm(SECONDS)
        outcome = attacks()
    finally:
        os._exit(outcome)


def survivors(found: Sequence[Mutant], attacks: Callable[[], int]) -> list[Mutant]:
    """Those that no attack noticed. A process of its own for each, one for each processor."""
    waiting, running, alive = list(reversed(found)), dict[int, Mutant](), []
    while waiting or running:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            mutant = waiting.pop()
            running[start(mutant, attacks)] = mutant
        process, status = os.wait()
        mutant = running.pop(process)
        if status == 0:
            alive.append(mutant)
            reason = UNREACHABLE.get((mutant.file.name, mutant.text), "SURVIVED")
            print(f"{mutant.label}: {reason}", flush=True)
    return alive


def main() -> int:
    """1 if there are survivors that are not accounted for."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "bundles", "digits")
        place.mkdir(parents=True)
        bundle, policy = place / "digits.aotb", place / "trust.toml"
        # In a process of its own: a build starts threads, and this one forks.
        command = [sys.executable, "-m", "tests.hostile.attacks", bundle, policy]
        subprocess.run(command, check=True)
        run = Attacks(str(bundle), str(policy), Path(folder)).run

        def attacks() -> int:
            return run() or suite(Path(folder))

        if os.waitpid(start(None, attacks), 0)[1]:
            sys.stderr.write("the attacks fail against the runtime as it is\n")
            return 1
        found = list(mutants())
        alive = survivors(found, attacks)
    left = sum((mutant.file.name, mutant.text) not in UNREACHABLE for mutant in alive)
    excused = len(alive) - left
    sys.stdout.write(f"{len(found)} checks removed, {excused} excused, {left} survivors\n")
    return min(left, 1)


if __name__ == "__main__":
    sys.exit(main())
