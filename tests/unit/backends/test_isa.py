"""Features that a host must have, apart from those that only shape code."""

from __future__ import annotations

import pytest

from aotc.backends.cpu import isa


def test_xla_features_are_split_into_required_and_tuning() -> None:
    given = ["+sse2", "-rtm", "+prefer-no-gather", "+avx2", "-slow-3ops-lea", "+avx2"]
    assert isa.split(given) == (("avx2", "sse2"), ("prefer-no-gather",))


def test_names_are_all_that_xla_lists_without_tuning() -> None:
    assert isa.names(["+sse2", "-rtm", "+prefer-no-gather", "avx"]) == {"sse2", "rtm"}


def test_what_is_not_required_is_ruled_out_by_name_before_what_is() -> None:
    text = isa.llvm(["sse2", "avx"], ["prefer-no-gather"], ["avx", "avx2", "avx512f", "sse2"])
    assert text == "-avx2,-avx512f,+avx,+prefer-no-gather,+sse2"


def test_a_required_feature_is_never_ruled_out() -> None:
    signs = isa.llvm(isa.FEATURES, [], isa.FEATURES).split(",")
    assert all(sign.startswith("+") for sign in signs)
    assert len(signs) == len(isa.FEATURES)


@pytest.mark.parametrize("name", ["prefer-no-gather", "fast-gather", "slow-lea", "macrofusion"])
def test_tuning_is_no_requirement(name: str) -> None:
    assert isa.is_tuning(name)
    assert name not in isa.FEATURES


def test_no_feature_is_taken_for_tuning() -> None:
    assert not [name for name in isa.FEATURES if isa.is_tuning(name)]
    assert isa.BASELINE <= isa.FEATURES
