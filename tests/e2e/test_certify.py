"""Bundles under other versions of jaxlib, installed from the package index: `make test-certify`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from msgspec import UNSET
from small_programs import build_signed

from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import ROOT, Bundle, manifest_of
from tests.running import python

VERSIONS = ("0.11.2", "0.12.0", "0.12.0.1")

pytestmark = [pytest.mark.index, pytest.mark.limit(3600)]


@pytest.fixture(scope="module", autouse=True)
def index() -> None:
    """Hundreds of megabytes are installed only where somebody asks for it."""
    if not os.environ.get("AOTC_CERTIFY"):
        pytest.skip("needs the package index and 0.6 GB for each jaxlib: `make test-certify`")


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make an environment for each version, as the guide does."""
    made = {}
    for version in VERSIONS:
        folder = tmp_path_factory.mktemp(version)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([*pip, ROOT / "runtime", f"jaxlib=={version}"], check=True)
        made[version] = pip[0]
    return made


def aotc(*arguments: str | Path) -> dict[str, Any]:
    return json.loads(python("-m", "aotc.cli.main", *arguments, "--json").stdout)


LOAD = """
import json, sys
import aotc_runtime
try:
    with aotc_runtime.load(sys.argv[1], trust=sys.argv[2]) as bundle:
        print(json.dumps(bundle.report()["certified"]))
except aotc_runtime.AotcError as error:
    print(json.dumps([finding.code for finding in error.findings]))
"""


def loaded(python: Path, bundle: Path, trust: Path) -> Any:
    """Return what the ordinary loader says in an environment: its certificate, or codes."""
    command = [python, "-I", "-B", "-c", LOAD, bundle, trust]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["digits", "gp"])
def test_a_bundle_runs_under_other_jaxlibs_and_loads_there_by_a_certifiers_word(
    name: str, built: Callable[[str], Bundle], pythons: dict[str, Path], tmp_path: Path
) -> None:
    """gp has LAPACK in it: custom calls into libraries of the loader's own."""
    original, policy = built(name)
    bundle, key = tmp_path / "bundle.aotb", tmp_path / "certifier"
    copyfile(original, bundle)
    certifier = aotc("keygen", "--plain", key)["key_id"]
    environments = [part for python in pythons.values() for part in ("--python", python)]
    document = aotc("certify", bundle, "--trust", policy, "--key", f"{key}.key", *environments)
    assert document["findings"] == [] and document["certificates_added"] == len(VERSIONS)
    assert [trial["version"] for trial in document["trials"]] == [*VERSIONS]
    assert {trial["outcome"] for trial in document["trials"]} == {"passed"}
    for trial in document["trials"]:
        assert trial["packages"]["jaxlib"] == trial["version"]
        assert "jax" not in trial["packages"] and "aotc" not in trial["packages"]
    accepting = tmp_path / "trust.toml"
    more = f'\n[[certifiers]]\npublic_key_file = "{key}.pub"\n'
    accepting.write_text(policy.read_text() + more)
    accepted = aotc("inspect", bundle)["targets"].popitem()[1]["accepts_jaxlib"]
    for version in VERSIONS:
        by_itself = loaded(pythons[version], bundle, policy)
        by_word = loaded(pythons[version], bundle, accepting)
        if version in accepted:
            assert (by_itself, by_word) == (None, None)
        else:
            assert by_itself == ["AOTC-E401"]
            assert (by_word["version"], by_word["keys"]) == (version, [certifier])


COMPILING = manifest_of("""
name = "symbolic"

[dimensions.batch]
range = [1, 64]
profiles = [4]

[entry_points.logits]
function = "program:logits"
inputs.x = { shape = ["batch", 3], dtype = "float32" }
out_of_profile.batch = "compile"
""")

LOGITS = """\
import jax.numpy as jnp


def logits(x):
    return jnp.tanh(x) @ jnp.ones((3, 5), "float32")
"""


def test_symbolic_module_is_compiled_to_certify_it(
    pythons: dict[str, Path], tmp_path: Path
) -> None:
    bundle, policy = build_signed(tmp_path, "symbolic", LOGITS, COMPILING)
    policy.write_text(
        policy.read_text().replace("[[keys]]", 'furthest_fallback = "compile"\n\n[[keys]]', 1)
    )
    document = aotc("certify", bundle, "--trust", policy, "--python", pythons["0.11.2"])
    assert document["findings"] == []
    (trial,) = document["trials"]
    assert (trial["outcome"], len(trial["fixtures"])) == ("passed", 1)
    (manifest,) = read_unverified(open_bundle(bundle))[0].manifests.values()
    module = manifest.entry_points["logits"].symbolic
    assert module is not UNSET and module.stablehlo is not UNSET
