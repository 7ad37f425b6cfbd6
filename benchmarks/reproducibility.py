"""Reproducibility: two builds in different folders, under different homes, at different times.

`python -m benchmarks.reproducibility`. Prints both root digests; exits 1 if they differ.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import ROOT

COPIED = ("digits.toml", "digits")


def build_in(folder: Path, hash_seed: str) -> str:
    """The root digest of digits, built from a copy in a folder of its own."""
    program = folder / "program"
    home = folder / "home"
    home.mkdir(parents=True)
    program.mkdir()
    for name in COPIED:
        source = ROOT / "manifests" / name
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, program / name)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "aotc.cli.main",
            "build",
            "digits.toml",
            "--json",
            "-o",
            "d.aotb",
            "--cache",
            "off",
        ],
        cwd=program,
        env={**os.environ, "HOME": str(home), "USER": home.name, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    digest: str = json.loads(done.stdout)["root_digest"]
    return digest


def main() -> int:
    """Build twice and compare."""
    digests = []
    for number, prefix in enumerate(("one-", "quite-another-place-")):
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            digests.append(build_in(Path(folder), hash_seed=str(number)))
            print(f"build {number + 1} in {prefix}*  {digests[-1]}")
    same = len(set(digests)) == 1
    print(f"goal: the same root digest  {'met' if same else 'missed'}")
    return len(set(digests)) - 1


if __name__ == "__main__":
    sys.exit(main())
