"""The tutorial and the guides run as they stand, each in an empty folder.

Blocks of shell and of Python run in their order; a block whose first line is `# NAME.py` becomes
that file. A comment above a block says what it needs (`run with: onnx`), or why it is not run.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.documented import Block, blocks_of, in_shell

DOCS = ROOT / "docs"
ELSEWHERE = {
    "profiles.md": "tests/e2e/test_traffic.py",
    "push-and-pull.md": "tests/registries/test_shipping_page.py",
    "serve.md": "tests/unit/runtime/serve/test_walk.py",
    "signing.md": "tests/interop/test_signing_page.py",
}
"""Guides whose blocks need a registry, a server or other tools, with the tests that run them."""

TORCH = Path(os.environ.get("AOTC_TORCH", "out/torch/recorded")).parent / "venv" / "bin" / "python"
NEEDS = {"onnx": ("onnx", "onnxruntime"), "keras": ("keras",), "torch": ()}

_FILE = re.compile(r"# (\S+\.py)\n")


def blocks(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in ("sh", "python")]


def guides() -> list[Path]:
    pages = [DOCS / "tutorial.md", *sorted((DOCS / "guides").glob("*.md"))]
    return [page for page in pages if page.name not in ELSEWHERE]


def needs(page: Path) -> set[str]:
    notes = [note for note, _, _ in blocks(page)]
    return {note.removeprefix("run with: ") for note in notes if note.startswith("run with: ")}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[getattr(pytest.mark, need) for need in needs(page)])
        for page in guides()
        if any(not note.startswith("not run: ") for note, _, _ in blocks(page))
    ],
)
def test_a_guide_runs_as_it_stands(page: Path, examples_cache: Path, tmp_path: Path) -> None:
    for need in needs(page):
        if need == "torch" and not TORCH.exists():
            pytest.skip("run make test-torch")
        for module in NEEDS[need]:
            if find_spec(module) is None:
                pytest.skip(f"needs {module}")
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    for note, language, code in blocks(page):
        named = _FILE.match(code)
        if note.startswith("not run: "):
            continue
        if named:
            (tmp_path / named[1]).write_text(code, "utf-8")
        elif language == "sh":
            cache = str(examples_cache)
            in_shell(code, tmp_path, TORCH_PYTHON=str(TORCH.absolute()), AOTC_CACHE=cache)
        else:
            raise AssertionError(f"{page.name}: a block of Python without a file's name:\n{code}")


def test_every_note_of_a_guide_says_why_or_what_it_needs() -> None:
    for page in guides():
        for note, _, _ in blocks(page):
            reason = note.removeprefix("not run: ")
            assert not note or note.removeprefix("run with: ") in NEEDS or reason != note, page


def test_every_page_that_others_run_is_named_in_its_test() -> None:
    for name, test in ELSEWHERE.items():
        assert (DOCS / "guides" / name).exists()
        assert name in (ROOT / test).read_text("utf-8"), (name, test)
