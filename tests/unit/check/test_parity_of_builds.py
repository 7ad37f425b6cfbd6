"""Builds whose executables do not do what plain JAX does write no bundle."""

from pathlib import Path

import pytest

from aotc.base.child_processes import Processes
from aotc.base.errors import ParityError
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.check import parity_process
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.schema.bundle_manifest import ParityNotRun, ParityRan
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle
from tests.small_manifests import one_function

MANIFEST = one_function("program", "[64]", "tolerance = { rtol = 0.0, atol = 0.0 }")

# The executable has the numbers that the capture drew, plain JAX draws its own.
NOT_DETERMINISTIC = """
import random
def f(x):
    return {"same": x, "other": x + random.Random().random()}
"""


def program(folder: Path, source: str) -> Path:
    (folder / "program.py").write_text(source)
    (folder / "program.toml").write_text(MANIFEST)
    return folder / "program.toml"


def test_result_beyond_tolerance_fails_and_keeps_the_old_bundle(tmp_path: Path) -> None:
    output = tmp_path / "out" / "program.aotb"
    output.parent.mkdir()
    older = b"oci-layout".ljust(257, b"\0") + b"ustar  \0 and the rest"
    output.write_bytes(older)
    with pytest.raises(ParityError) as caught:
        build(program(tmp_path, NOT_DETERMINISTIC), output=output)
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E951"
    assert finding.where == "f for cpu-x86-64-v3, output other"
    assert "largest error against float64" in finding.found
    assert {file.name: file.read_bytes() for file in output.parent.iterdir()} == {
        "program.aotb": older
    }


def test_a_target_that_this_host_cannot_run_is_recorded_as_not_run(tmp_path: Path) -> None:
    manifest = program(tmp_path, "def f(x):\n    return x * 2\n")
    target = (Path(__file__).parents[3] / "targets" / "cpu-x86-64-v4.toml").read_text()
    # No processor has both AMD's fma4, gone since 2017, and Intel's AMX.
    odd = target.replace('"64bit",', '"64bit", "fma4", "amx-tile",').replace("-v4", "-odd", 1)
    (tmp_path / "odd.toml").write_text(odd)
    output = tmp_path / "program.aotb"
    build(manifest, output, BuildOptions(targets=["cpu-x86-64-v3", "./odd.toml"]))
    manifests = read_unverified(open_bundle(output))[0].manifests
    ran = manifests["cpu-x86-64-v3"].entry_points["f"].profiles[0].parity
    assert ran == ParityRan(max_abs="0.0", max_rel="0.0", ulp_max=0, elements=64, worst=ran.worst)
    not_run = manifests["cpu-x86-64-odd"].entry_points["f"].profiles[0].parity
    assert isinstance(not_run, ParityNotRun)
    assert "fma4" in not_run.reason


@pytest.mark.parametrize(("damaged", "code"), [(False, "AOTC-E3"), (True, ("AOTC-E1", "AOTC-E2"))])
def test_a_bundle_that_is_refused_is_never_not_run_here(
    digits_bundle: Bundle, tmp_path: Path, damaged: bool, code: str | tuple[str, ...]
) -> None:
    data = bytearray(digits_bundle[0].read_bytes())
    data[-5000] ^= damaged
    (tmp_path / "b.aotb").write_bytes(data)
    stranger = tmp_path / "trust.toml"
    stranger.write_text(policy_text("digits", [LocalSigner.ephemeral().public_pem()]))
    policy = digits_bundle[1] if damaged else stranger
    with pytest.raises(ParityError) as caught:
        parity_process.run(tmp_path / "b.aotb", policy, "cpu-x86-64-v3", tmp_path, Processes())
    assert {finding.code for finding in caught.value.findings} == {"AOTC-E953"}
    assert caught.value.findings[0].found.startswith(code)


def test_every_built_executable_runs(digits_bundle: Bundle, tmp_path: Path) -> None:
    outcomes = parity_process.run(*digits_bundle, "cpu-x86-64-v3", tmp_path, Processes())
    labels = [each.trial.call.key.label for each in outcomes.outcomes]
    assert labels == ["predict[batch=1]", "predict[batch=8]", "predict[batch=64]"]
