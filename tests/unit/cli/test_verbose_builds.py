"""`aotc build -v`: the program's own traceback and words on stderr, none of ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import manifest_of

MANIFEST = manifest_of("""
name = "program"
[entry_points.f]
function = "spoken:f"
""")


@pytest.mark.parametrize(("options", "shown"), [((), False), (("-v",), True)])
def test_a_failing_program_is_heard_with_v_only(
    aotc: Callable[..., Any], tmp_path: Path, options: tuple[str, ...], shown: bool
) -> None:
    (tmp_path / "spoken.py").write_text("def f():\n    print('a word')\n    return 1 / 0\n")
    (tmp_path / "m.toml").write_text(MANIFEST)
    done = aotc("build", "m.toml", *options)
    assert done.exit_code == 3
    assert ("capture | a word" in done.stderr) == shown
    assert ('spoken.py", line 3, in f' in done.stderr) == shown
    assert "pipeline.py" not in done.stderr
    assert "error[AOTC-E829]: " in done.stderr
