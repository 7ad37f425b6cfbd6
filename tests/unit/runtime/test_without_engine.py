"""Without jaxlib, bundles are verified, and loading says which extra is missing."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.engines.engine_registry import detect
from tests.conftest import Bundle
from tests.running import python

WITHOUT_JAXLIB = """
import sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "ml_dtypes", "scipy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder)
"""

LOAD = """
import json, aotc_runtime
try:
    aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
except aotc_runtime.AotcError as error:
    print(json.dumps([finding.to_json() for finding in error.findings]))
"""

COMMAND = """
from aotc_runtime.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return python("-c", WITHOUT_JAXLIB + code, *arguments)


def test_a_bundle_is_verified_up_to_the_host_which_lacks_the_engine(digits_bundle: Bundle) -> None:
    done = run(COMMAND, "verify", digits_bundle[0], "--trust", digits_bundle[1], "--json")
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 6, done.stderr
    (finding,) = document["findings"]
    assert (finding["code"], finding["title"]) == ("AOTC-E405", "jaxlib is not installed")
    assert "'./runtime[xla]'" in finding["hint"]
    assert document["gates"][-1] == "policy" and document["signers"] and document["target"]


def test_untrusted_bundle_is_refused(digits_bundle: Bundle, tmp_path: Path) -> None:
    damaged = bytearray(digits_bundle[0].read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged.aotb").write_bytes(damaged)
    done = run(COMMAND, "verify", tmp_path / "damaged.aotb", "--trust", digits_bundle[1])
    assert done.returncode == 5 and "AOTC-E405" not in done.stderr


def test_loading_says_which_extra_the_bundle_needs(digits_bundle: Bundle) -> None:
    done = run(LOAD, *digits_bundle)
    (finding,) = json.loads(done.stdout)
    assert finding["code"] == "AOTC-E405" and "./runtime[xla]" in finding["hint"]


def test_the_host_is_described_from_the_system(digits_bundle: Bundle) -> None:
    done = run(COMMAND, "host-info", "--json")
    facts = json.loads(done.stdout)["facts"]
    asked = detect()
    assert facts["jaxlib"] == "not installed" and facts["architecture"] == asked.architecture
    assert facts["libc"] == asked.libc and facts["runtime"] == asked.runtime
    assert {"sse2", "cx8"} <= {*facts["isa"]} or asked.architecture != "x86_64"


@pytest.mark.parametrize("count", [1, 8])
def test_a_processor_is_as_many_devices_as_a_bundle_wants(count: int) -> None:
    code = "from aotc_runtime.engines.engine_registry import detect\n"
    code += f"facts = detect(devices={count})\n"
    done = run(code + "print(facts.devices, facts.devices_fixed)")
    assert done.stdout.split() == [str(count), "False"], done.stderr
