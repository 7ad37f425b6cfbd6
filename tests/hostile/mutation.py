"""Remove every check of the readers and the verifier in turn, and list what no attack notices.

`make mutate`: each place that raises or yields a finding is disabled in a process of
its own, as is each side of an `or` that guards one, and all attacks run against what is left; if
none notices, the tests of what attacks do not reach. Of the toolchain's readers, whose answer may
be a value, each `if` that only returns one is removed, too; tests have to notice it.

`python -m tests.hostile.mutation TEXT` for modules alone whose path holds the text.
"""

from __future__ import annotations

import ast
import importlib
import inspect
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

import aotc
import aotc_runtime

from .attacks import Attacks
from .weakening import inside

RUNTIME, TOOLCHAIN = Path(aotc_runtime.__file__).parent, Path(aotc.__file__).parent
NOT_CHECKS = ("report.py",)


class Area(NamedTuple):
    """Modules, and the tests that have to notice what is missing there.

    root: of the package.  attacks: whether those on bundles run before the tests.
    """

    root: Path
    places: tuple[str, ...]
    tests: tuple[str, ...]
    attacks: bool = False


AREAS = (
    Area(
        RUNTIME,
        (
            "formats",
            "verification",
            "canonical.py",
            "schema/tree.py",
            "system/store.py",
            "serving/readiness.py",
            "serving/weights.py",
        ),
        # Of policies that say nothing clear or accept the bundle, of limits and fixtures, and of
        # which of several rules it is that refuses.
        (
            "tests/unit/runtime/verification",
            "tests/hostile/test_archives.py",
            "tests/hostile/test_certificates.py",
            "tests/hostile/test_contradictions.py",
            "tests/hostile/test_policy_rules.py",
            "tests/hostile/test_readiness.py",
            "tests/hostile/test_shape_contradictions.py",
        ),
        attacks=True,
    ),
    Area(TOOLCHAIN, ("cache/seal.py",), ("tests/unit/cache/test_seal.py",)),
    Area(
        TOOLCHAIN,
        ("cache/store.py", "cache/place.py"),
        ("tests/unit/cache/test_store.py", "tests/unit/cache/test_place.py"),
    ),
    Area(
        TOOLCHAIN,
        (
            "cache/remote.py",
            "cache/sharing.py",
            "cache/http_requests.py",
            "cache/http_blobs.py",
            "cache/oci_blobs.py",
            "cache/fsspec_blobs.py",
            "cache/bounded.py",
        ),
        (
            "tests/unit/cache/test_bounded.py",
            "tests/unit/cache/test_remote.py",
            "tests/unit/cache/test_oci_blobs.py",
            "tests/hostile/test_hostile_caches.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("build/watching/remembered.py",),
        ("tests/unit/build/watching/test_remembered.py",),
    ),
    Area(
        TOOLCHAIN,
        ("build/reproducing/recipe.py", "build/reproducing/source_check.py"),
        ("tests/unit/build/reproducing", "tests/hostile/test_hostile_recipes.py"),
    ),
    Area(
        TOOLCHAIN,
        (
            "build/distributed/wire.py",
            "build/distributed/worker.py",
            "build/distributed/executor_backend.py",
        ),
        ("tests/unit/build/distributed/test_distributed.py",),
    ),
    Area(
        TOOLCHAIN,
        ("bundles/trust_files.py", "signing/trust_edit.py", "signing/trust_file.py"),
        (
            "tests/unit/signing/test_trust_edit.py",
            "tests/unit/cli/test_command_trust_changes.py",
            "tests/unit/cli/test_command_trust.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("bundles/model_signature.py", "signing/openssf.py"),
        ("tests/unit/signing/test_model_signatures.py", "tests/unit/cli/test_command_attest.py"),
    ),
    Area(
        TOOLCHAIN,
        ("backends/xla/elf.py", "backends/xla/records.py"),
        ("tests/unit/backends/test_records.py",),
    ),
    Area(RUNTIME, ("system/files.py",), ("tests/unit/runtime/system/test_files.py",)),
    Area(RUNTIME, ("system/parallel.py",), ("tests/unit/runtime/system/test_parallel.py",)),
    Area(RUNTIME, ("serving/loading.py",), ("tests/unit/runtime/serving/test_loading.py",)),
    Area(
        RUNTIME,
        ("serving/compare.py",),
        ("tests/unit/runtime/serving/test_dtypes_and_compare.py",),
    ),
    Area(TOOLCHAIN, ("locations.py",), ("tests/unit/test_locations.py",)),
    Area(
        TOOLCHAIN,
        ("parity/isolated.py", "certify/isolated.py"),
        ("tests/unit/parity/test_isolated.py", "tests/unit/certify/test_isolated.py"),
    ),
    Area(TOOLCHAIN, ("compat/host_files.py",), ("tests/unit/compat/test_host_files.py",)),
    Area(
        TOOLCHAIN,
        ("certify/environments.py", "certify/installing.py"),
        ("tests/unit/certify/test_environments.py", "tests/unit/certify/test_installing.py"),
    ),
    Area(
        TOOLCHAIN,
        ("signing/believe.py", "bundles/merge.py", "packing/merging.py", "packing/same_source.py"),
        ("tests/unit/packing/test_merged_bundles.py", "tests/unit/cli/test_command_merge.py"),
    ),
    Area(TOOLCHAIN, ("tuning/tuning_file.py",), ("tests/unit/tuning/test_tuning_file.py",)),
    Area(TOOLCHAIN, ("traffic/lines.py", "traffic/log.py"), ("tests/unit/traffic/test_log.py",)),
)

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
        "trust_edit.py",
        'raise _not_in_place("a policy that would say something else afterwards")',
    ): "tomlkit writes what it was told to; nobody knows when it does not",
    (
        "tensors.py",
        "length > limits.TENSOR_HEADER_BYTES_MAX",
    ): "would take a file of 100 MiB",
}
"""Survivors that no input can tell, by file and text, each with the reason."""


class Mutant(NamedTuple):
    """One check less. text: of the check.  source: of the file without it."""

    area: Area
    file: Path
    line: int
    text: str
    source: str

    @property
    def label(self) -> str:
        text = " ".join(self.text.split())
        return f"{self.file.relative_to(self.area.root.parent)}:{self.line} {text[:90]}"


def mutants(texts: Sequence[str] = ()) -> Iterator[Mutant]:
    """Every check, removed. texts: of which one has to stand in the path; none for all."""
    for area in AREAS:
        for place in area.places:
            path = area.root / place
            for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
                wanted = not texts or any(text in str(file) for text in texts)
                if wanted and file.name not in NOT_CHECKS:
                    yield from _of(area, file)


def _of(area: Area, file: Path) -> Iterator[Mutant]:
    text = file.read_text("utf-8")
    for node, by in _changes(ast.parse(text), answers=not area.attacks):
        yield _replaced(area, file, text, node, by)


def _changes(tree: ast.AST, *, answers: bool) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """What can be removed, and what stands there then. answers: values may be refusals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            yield node, "pass"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield):
            yield node, "yield from ()"
        elif isinstance(node, ast.Expr) and _calls(node.value, "raise_if", "check_keys"):
            yield node, "pass"
        elif isinstance(node, ast.If) and _refuses(node.body):
            yield from _operands(node.test)
        elif answers and isinstance(node, ast.If) and isinstance(node.body[0], ast.Return):
            yield node.test, "False"
            yield from _operands(node.test)
        elif answers and isinstance(node, ast.Return) and isinstance(node.value, ast.IfExp):
            yield node.value.test, "True"
            yield node.value.test, "False"


def _operands(test: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Each side of an `or` (which holds never), or of an `and` (which holds always)."""
    if isinstance(test, ast.BoolOp):
        neutral = "False" if isinstance(test.op, ast.Or) else "True"
        for operand in test.values:
            yield operand, neutral


def _refuses(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Raise | ast.Yield)
        for statement in body
        for node in ast.walk(statement)
    )


def _calls(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _replaced(area: Area, file: Path, text: str, node: ast.stmt | ast.expr, by: str) -> Mutant:
    lines = text.splitlines(keepends=True)
    assert node.end_lineno is not None and node.end_col_offset is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    # Columns of the syntax tree count bytes.
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    padding = "\n" * (last - first) if isinstance(node, ast.stmt) else ""
    source = "".join([*lines[:first], head + by + padding + tail, *lines[last + 1 :]])
    return Mutant(area, file, node.lineno, ast.get_source_segment(text, node) or "", source)


def apply(mutant: Mutant) -> None:
    """Let the functions of this process be those of the mutant."""
    root = mutant.area.root.parent
    name = ".".join(mutant.file.relative_to(root).with_suffix("").parts)
    module = importlib.import_module(name)
    code = compile(mutant.source, str(mutant.file), "exec")
    changed = {part.co_qualname: part for part in inside(code)}
    owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    for owner in owners:
        for value in list(vars(owner).values()):
            if isinstance(value, property):
                value = value.fget
            function = inspect.unwrap(value) if callable(value) else value
            if isinstance(function, FunctionType) and function.__module__ == name:
                function.__code__ = changed[function.__code__.co_qualname]


def suite(tests: Sequence[str], folder: Path) -> int:
    """Run tests in this process; 0 if all pass. folder: where the bundle lies already."""
    # Workers of one test run share their bundles (tests/conftest.py).
    os.environ["PYTEST_XDIST_WORKER"] = f"mutant-{os.getpid()}"
    place = f"--basetemp={folder}/{os.getpid()}"
    return pytest.main([*tests, place, "-q", "-x", "-p", "no:cacheprovider"])


type Attempts = Callable[[Area], int]
"""What is tried against the code as it is; 0 if all of it ends as it should."""


def start(area: Area, mutant: Mutant | None, attempts: Attempts) -> int:
    """The process that runs attacks and tests against the mutant."""
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
        outcome = attempts(area)
    finally:
        os._exit(outcome)


def survivors(found: Sequence[Mutant], attempts: Attempts) -> list[Mutant]:
    """Those that no attack noticed. A process of its own for each, one for each processor."""
    waiting, running, alive = list(reversed(found)), dict[int, Mutant](), []
    while waiting or running:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            mutant = waiting.pop()
            running[start(mutant.area, mutant, attempts)] = mutant
        process, status = os.wait()
        mutant = running.pop(process)
        if status == 0:
            alive.append(mutant)
            reason = UNREACHABLE.get((mutant.file.name, mutant.text), "SURVIVED")
            print(f"{mutant.label}: {reason}", flush=True)
    return alive


def main(texts: Sequence[str]) -> int:
    """1 if there are survivors that are not accounted for. texts: as of `mutants`."""
    found = list(mutants(texts))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "bundles", "digits")
        place.mkdir(parents=True)
        bundle, policy = place / "digits.aotb", place / "trust.toml"
        # In a process of its own: a build starts threads, and this one forks.
        command = [sys.executable, "-m", "tests.hostile.attacks", bundle, policy]
        subprocess.run(command, check=True)
        run = Attacks(str(bundle), str(policy), Path(folder)).run

        def attempts(area: Area) -> int:
            return (area.attacks and run()) or suite(area.tests, Path(folder))

        for area in dict.fromkeys(mutant.area for mutant in found):
            if os.waitpid(start(area, None, attempts), 0)[1]:
                sys.stderr.write(f"{', '.join(area.tests)} fail against the code as it is\n")
                return 1
        alive = survivors(found, attempts)
    left = sum((mutant.file.name, mutant.text) not in UNREACHABLE for mutant in alive)
    excused = len(alive) - left
    sys.stdout.write(f"{len(found)} checks removed, {excused} excused, {left} survivors\n")
    return min(left, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
