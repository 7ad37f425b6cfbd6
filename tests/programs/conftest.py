"""Programs by others, built and served, and their results."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .roundtrip import Made, Places

LINES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """In the folder that the targets of the Makefile fill, and a key made for the session."""
    key = tmp_path_factory.mktemp("key") / "ci"
    keygen = ["keygen", "--plain", key]
    subprocess.run([sys.executable, "-m", "aotc.cli.main", *keygen], check=True)
    folder = Path(os.environ["AOTC_PROGRAMS"])
    return Places(folder / "runtime" / "bin" / "python", key.with_suffix(".key"))


@pytest.fixture
def told(pytestconfig: pytest.Config) -> Callable[[str, Made], None]:
    """Puts a line about a program into the summary of the run."""
    lines = pytestconfig.stash.setdefault(LINES, [])

    def tell(name: str, made: Made) -> None:
        every = made.compared.values()
        leaves, identical = (sum(getattr(c, n) for c in every) for n in ("leaves", "identical"))
        worst = max((c.worst for c in every), default=0)
        lines.append(
            f"{name:32} {len(made.compared):4} {made.seconds:6.0f} s {made.size / 1e6:6.1f} MB "
            f"{identical:6} of {leaves:6} arrays identical, worst {worst:.1e}"
        )

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(LINES, [])
    if lines:
        terminalreporter.section("programs: entry points, processor time, bundle, results")
        terminalreporter.write_line("\n".join(lines))
