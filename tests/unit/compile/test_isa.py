"""Names of processors and features: which a host must have, and that the compiler knows them."""

import subprocess
from pathlib import Path

import pytest

from aotc.compile.cpu import cpu_isa
from aotc.compile.cpu.cpu_kind import CpuModel
from aotc.compile.target_files import list_targets
from tests.running import python

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "llvm_processors.py"


def test_xla_features_are_split_into_required_and_tuning() -> None:
    given = ["+sse2", "-rtm", "+prefer-no-gather", "+avx2", "-slow-3ops-lea", "+avx2"]
    assert cpu_isa.split(given) == (("avx2", "sse2"), ("prefer-no-gather",))


def test_names_are_all_that_xla_lists_without_tuning() -> None:
    assert cpu_isa.names(["+sse2", "-rtm", "+prefer-no-gather", "avx"]) == {"sse2", "rtm"}


def test_what_is_not_required_is_ruled_out_by_name_before_what_is() -> None:
    text = cpu_isa.llvm(["sse2", "avx"], ["prefer-no-gather"], ["avx", "avx2", "avx512f", "sse2"])
    assert text == "-avx2,-avx512f,+avx,+prefer-no-gather,+sse2"


def test_a_required_feature_is_never_ruled_out() -> None:
    signs = cpu_isa.llvm(cpu_isa.FEATURES, [], cpu_isa.FEATURES).split(",")
    assert all(sign.startswith("+") for sign in signs)
    assert len(signs) == len(cpu_isa.FEATURES)


@pytest.mark.parametrize("name", ["prefer-no-gather", "fast-gather", "slow-lea", "macrofusion"])
def test_tuning_is_no_requirement(name: str) -> None:
    assert cpu_isa.is_tuning(name)
    assert name not in cpu_isa.FEATURES


def test_no_feature_is_taken_for_tuning() -> None:
    assert not [name for name in cpu_isa.FEATURES if cpu_isa.is_tuning(name)]


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python(SCRIPT, *arguments)


def test_targets_and_names_agree_with_the_compiler_that_is_installed() -> None:
    done = script("check")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_knows_the_features_of_a_processor() -> None:
    name, _, features = script("show", "x86-64-v3").stdout.partition(": ")
    v3 = next(model for model in list_targets(ROOT)[0].values() if model.name == "cpu-x86-64-v3")
    assert name == "x86-64-v3"
    assert isinstance(v3, CpuModel) and features.split() == v3.features


def test_every_name_is_one_that_a_target_may_use_and_stands_once() -> None:
    assert len(set(cpu_isa.CPUS)) == len(cpu_isa.CPUS)
    named = {model.cpu for model in list_targets(ROOT)[0].values() if isinstance(model, CpuModel)}
    assert named and named <= set(cpu_isa.CPUS)
