"""The loader where neither the toolchain nor aotc-serve is installed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import Bundle

ROOT = Path(__file__).parents[3]

NEEDED = ("numpy", "msgspec", "cryptography", "cffi", "_cffi_backend", "jaxlib", "ml_dtypes")
"""Imported names of what `pip install './runtime[xla]'` brings, and of what that needs."""

LOAD = """
import sys
import aotc_runtime

bundle, policy = sys.argv[1:]
with aotc_runtime.load(bundle, trust=policy) as loaded:
    assert loaded.report()["fixtures"]  # which were run
try:
    aotc_runtime.load("oci://127.0.0.1/x@sha256:" + "0" * 64, trust=policy)
except aotc_runtime.AotcError as error:
    print(error.code, error.findings[0].hint)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with these packages and the loader, and with no other distribution."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "aotc_runtime").symlink_to(ROOT / "runtime" / "aotc_runtime")
    for name in NEEDED:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        origin = Path(spec.origin)
        place = origin.parent if spec.submodule_search_locations else origin
        (folder / place.name).symlink_to(place)
        for libraries in place.parent.glob(f"{name}.libs"):
            (folder / libraries.name).symlink_to(libraries)
    return folder


def run(alone: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with that folder in place of what is installed."""
    return subprocess.run(
        [sys.executable, "-S", *map(str, arguments)],
        env={"PYTHONPATH": str(alone), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_bundle_is_verified_and_loaded(alone: Path, digits_bundle: Bundle) -> None:
    bundle, policy = digits_bundle
    done = run(alone, "-m", "aotc_runtime", "verify", bundle, "--trust", policy)
    assert done.returncode == 0 and done.stdout.startswith("ok "), done.stderr
    done = run(alone, "-c", LOAD, bundle, policy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("AOTC-E406 ") and "./runtime/serve" in done.stdout


def test_serving_names_what_to_install(alone: Path, digits_bundle: Bundle) -> None:
    bundle, policy = digits_bundle
    done = run(alone, "-m", "aotc_runtime", "serve", bundle, "--trust", policy)
    assert done.returncode == 6
    assert "AOTC-E406" in done.stderr and "./runtime/serve[serve]" in done.stderr
    assert "serve" not in run(alone, "-m", "aotc_runtime", "--help").stdout
