"""XLA, a third of a gigabyte of native code, starts only for a bundle that is trusted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CLIENT = """
import sys
import aotc_runtime

try:
    aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
except aotc_runtime.TrustError as error:
    print(error.code, "jaxlib._jax" in sys.modules)
else:
    print("loaded", "jaxlib._jax" in sys.modules)
"""


def load(bundle: Path, policy: Path) -> str:
    command = [sys.executable, "-c", CLIENT, str(bundle), str(policy)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_bundle_of_another_name_is_refused_before_xla_is_loaded(
    digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    bundle, policy = digits_bundle
    other = tmp_path / "other.toml"
    text = policy.read_text()
    assert 'name = "digits"' in text
    key = policy.parent.as_posix()
    text = text.replace('name = "digits"', 'name = "other"', 1)
    other.write_text(text.replace('public_key_file = "', f'public_key_file = "{key}/'))
    assert load(bundle, other) == "AOTC-E306 False"
    assert load(bundle, policy) == "loaded True"
