"""All text for a terminal or a log goes through one escaping function."""

import ast
from collections.abc import Iterator

from tests.conftest import ROOT

PACKAGES = (
    ROOT / "aotc",
    ROOT / "runtime" / "aotc_runtime",
    ROOT / "runtime" / "serve" / "aotc_serve",
)

WRITERS = {
    *("print", "click.echo", "sys.stdout.write", "sys.stdout.writelines", "sys.stderr.write"),
    *("sys.stderr.writelines", "traceback.print_exc", "traceback.print_exception"),
}

RAW = {
    "runtime/aotc_runtime/base/rendering.py": "the function itself",
    "runtime/aotc_runtime/__main__.py": "texts of `render` and `document_text`, and our own",
    "runtime/serve/aotc_serve/server_process.py": "lines of `logged` and `json_line`",
    "runtime/aotc_runtime/system/read_progress.py": "moves the cursor, and writes numbers",
    "aotc/report/report_text.py": "texts of `printable`",
    "aotc/cli/command_output.py": "texts of `render` and `document_text`",
    "aotc/cli/command_group.py": "texts of our own",
    "aotc/base/workers/zygote.py": "a child's; its parent quotes it",
}


def _written(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in WRITERS:
            yield ast.unparse(node.func)


def test_only_the_listed_modules_write_text_themselves() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in package.rglob("*.py")
        if any(_written(path.read_text("utf-8")))
    }
    assert found == RAW.keys()
