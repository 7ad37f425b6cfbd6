"""Below jaxlib's own processor level nothing of it, nor numpy, is loaded; see tests/e2e for the
same on emulated processors.
"""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import aotc_runtime
from aotc_runtime import IncompatibleHostError
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.system import processor_check
from tests.conftest import Bundle

TOO_OLD = """
import sys
from jaxlib import cpu_feature_guard
def check():
    raise RuntimeError("This version of jaxlib was built using AVX2 instructions\\nand so on")
cpu_feature_guard.check_cpu_features = check
"""
"""What the guard does on a processor without AVX2."""

REFUSED = """
import json
import aotc_runtime
bundle, policy = sys.argv[1:]
try:
    aotc_runtime.load(bundle, trust=policy)
except aotc_runtime.AotcError as error:
    loaded = [name for name in ("numpy", "jaxlib._jax", "jaxlib.xla_client") if name in sys.modules]
    print(json.dumps([error.exit_code, error.findings[0].to_json(), loaded]))
"""


LOADED_AHEAD = """
import os, sys
import aotc_runtime
from aotc_runtime.system import processor_check
def maps():
    return "libjax_common" in open("/proc/self/maps").read()
try:
    aotc_runtime.load(*sys.argv[1:2], trust="gone.toml")
except aotc_runtime.TrustError:
    pass
child = os.fork()
if child == 0:
    os._exit(not maps())
print(os.waitpid(child, 0)[1], maps(), "jaxlib._jax" in sys.modules, "jaxlib" in sys.modules)
"""


def python(text: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_this_processor_is_not_refused() -> None:
    processor_check.require()
    processor_check.require_numpy()


@pytest.mark.parametrize("version", ["0.11.2", "0.12.0", "0.12.0.1", metadata.version("jaxlib")])
def test_what_jaxlib_needs_is_known_and_can_be_asked_for_in_every_version(version: str) -> None:
    floor = processor_check.floor(version)
    assert "avx" in floor and floor <= set(processor_check._BITS)
    assert ("avx2" in floor) == (not version.startswith("0.11"))


def test_nothing_is_claimed_of_a_jaxlib_that_nobody_tried() -> None:
    assert processor_check.floor("0.99.1") == processor_check.floor("") == frozenset()


def test_the_c_library_and_llvm_agree_on_this_processor() -> None:
    here = detect().isa
    for name in processor_check._BITS:
        assert processor_check.lacking(frozenset([name])) == (() if name in here else (name,)), name


def test_the_library_is_loaded_while_a_bundle_is_verified_and_a_fork_waits(
    digits_bundle: Bundle,
) -> None:
    assert python(LOADED_AHEAD, digits_bundle[0]).stdout == "0 True False True\n"


def test_a_bundle_of_another_engine_loads_nothing_of_jaxlib(
    digits_bundle: Bundle, tmp_path: Path
) -> None:
    """Its documents decide, whether or not they are the signed ones."""
    other = tmp_path / "other.aotb"
    data = digits_bundle[0].read_bytes()
    other.write_bytes(data.replace(b'"platform":"cpu"', b'"platform":"abc"'))
    assert python(LOADED_AHEAD, other).stdout == "256 False False False\n"


def test_a_missing_or_broken_library_is_left_to_its_import(tmp_path: Path) -> None:
    broken = tmp_path / "_jax.so"
    broken.write_bytes(b"no shared object")
    for path in (broken, tmp_path / "missing.so"):
        processor_check._load_library(str(path))


def test_where_jaxlib_cannot_run_loading_says_so_before_jaxlib_or_numpy_are_there(
    digits_bundle: Bundle,
) -> None:
    done = python(TOO_OLD + REFUSED, *digits_bundle)
    exit_code, finding, loaded = json.loads(done.stdout)
    assert (exit_code, finding["code"], loaded) == (7, "AOTC-E506", [])
    assert finding["found"] == "This version of jaxlib was built using AVX2 instructions"


def test_where_numpy_cannot_run_names_are_refused_when_they_are_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor_check, "lacking", lambda features: ("popcnt",))
    with pytest.raises(IncompatibleHostError, match="AOTC-E506"):
        _ = aotc_runtime.verify
    with pytest.raises(AttributeError):
        _ = aotc_runtime.something  # type: ignore[attr-defined]
