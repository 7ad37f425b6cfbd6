"""The child's side of a job."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import aotc
from aotc.commands.certify.certify_process import ANSWERING


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_it_runs_where_the_runtime_and_the_modules_it_consists_of_are() -> None:
    for module in ANSWERING:
        for name in imported(Path(aotc.__path__[0]) / module):
            if name.startswith("aotc."):
                own = name.removeprefix("aotc.").replace(".", "/") + ".py"
                assert own in ANSWERING, f"{module} imports {name}"
            else:
                top = name.partition(".")[0]
                assert top in {*sys.stdlib_module_names, "aotc_runtime", "msgspec"}
