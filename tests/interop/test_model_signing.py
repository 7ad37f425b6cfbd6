"""The guide's OpenSSF model signature of a bundle, made and checked with the package from PyPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from . import page


def test_model_signing_verifies_a_bundle_and_refuses_it_once_changed(
    model_signing: None, signed: Path
) -> None:
    page.require("OpenSSF Model Signing", signed)
    index = signed / "digits" / "index.json"
    index.write_bytes(index.read_bytes() + b" ")
    program = Path(sys.executable).parent / "model_signing"
    verifying = ["verify", "key", "digits", "--signature", "model.sig", "--public_key"]
    done = subprocess.run([program, *verifying, "release.pub"], cwd=signed, check=False)
    assert done.returncode != 0
