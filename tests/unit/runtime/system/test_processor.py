"""Below jaxlib's own processor level nothing of it, nor numpy, is loaded; see tests/e2e for the
same on emulated processors.
"""

import json
import subprocess
import sys
from importlib import metadata
from unittest.mock import Mock

import pytest

from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.system import processor_check

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
try:
    aotc_runtime.load("gone.aotb", trust="gone.toml")
except aotc_runtime.AotcError as error:
    loaded = [name for name in ("numpy", "jaxlib._jax", "jaxlib.xla_client") if name in sys.modules]
    print(json.dumps([error.exit_code, error.findings[0].to_json(), loaded]))
try:
    aotc_runtime.something
except AttributeError:
    print("unknown names stay unknown")
"""


LOADED_AHEAD = """
import os, sys, threading
import aotc_runtime
aotc_runtime.verify
print("verify", any(thread.name == "aotc-jaxlib" for thread in threading.enumerate()))
aotc_runtime.load
child = os.fork()
maps = open("/proc/self/maps").read()
if child == 0:
    os._exit("libjax_common" not in maps)
print("load", os.waitpid(child, 0)[1], "libjax_common" in maps, "jaxlib._jax" in sys.modules)
"""


def python(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", TOO_OLD + text], capture_output=True, text=True, timeout=60
    )


def test_this_processor_is_not_refused() -> None:
    assert processor_check.refusal() is None


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


def test_the_library_is_loaded_ahead_of_a_load_and_a_fork_waits_for_it() -> None:
    code = [sys.executable, "-c", LOADED_AHEAD]
    done = subprocess.run(code, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["verify False", "load 0 True False"]


def test_a_missing_or_broken_library_is_left_to_its_import(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ModuleNotFoundError("jaxlib"), OSError("no shared object")):
        with monkeypatch.context() as patch:
            patch.setattr(processor_check, "find_spec", Mock(side_effect=error))
            processor_check._load_library()


def test_where_jaxlib_cannot_run_loading_says_so_before_jaxlib_or_numpy_are_there() -> None:
    done = python(REFUSED)
    first, second = done.stdout.splitlines()
    exit_code, finding, loaded = json.loads(first)
    assert (exit_code, finding["code"], loaded) == (7, "AOTC-E506", [])
    assert finding["found"] == "This version of jaxlib was built using AVX2 instructions"
    assert second == "unknown names stay unknown"


def test_where_jaxlib_cannot_run_names_are_refused_when_they_are_imported() -> None:
    done = python("from aotc_runtime import load")
    assert "IncompatibleHostError: error[AOTC-E506]" in done.stderr
