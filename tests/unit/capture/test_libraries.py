"""Which files stand for themselves, and which a package or the version of Python stands for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

import aotc

ASK = """
import sys, sysconfig, os
from aotc.capture import library_files as libraries
paths = sysconfig.get_paths()
def ours(path): return libraries.is_of_python_or_ours(path)
print(ours(os.path.join(paths["stdlib"], "json", "decoder.py")),
      ours(os.path.join(paths["purelib"], "jax", "core.py")),
      ours(os.path.join(os.path.dirname(libraries.__file__), "child.py")))
"""


def test_a_package_in_an_environment_is_not_taken_for_the_standard_library(tmp_path: Path) -> None:
    """site-packages lies within a folder of the standard library, also in an environment."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = (environment / "lib").glob("python3*/site-packages")
    folders = {Path(aotc.__path__[0]).parent, Path(msgspec.__file__).parents[1]}
    runtime = Path(sys.modules["aotc_runtime"].__path__[0]).parent
    (site / "found.pth").write_text("".join(f"{folder}\n" for folder in (*folders, runtime)))
    for python in (environment / "bin" / "python", Path(sys.executable)):
        done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["True", "False", "True"], done.stderr
