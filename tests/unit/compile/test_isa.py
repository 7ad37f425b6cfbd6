"""Features that a host must have, apart from those that only shape code."""

from __future__ import annotations

import pytest

from aotc.compile.cpu import cpu_isa


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
    assert cpu_isa.BASELINE <= cpu_isa.FEATURES
