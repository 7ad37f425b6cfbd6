"""`make test` runs every file of tests: none lies where pytest does not look."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_no_folder_with_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    left_out = [str(pattern) for pattern in pytestconfig.getini("norecursedirs")]
    for path in sorted(TESTS.rglob("test_*.py")):
        for folder in path.relative_to(TESTS).parts[:-1]:
            assert not any(fnmatch(folder, pattern) for pattern in left_out), path
