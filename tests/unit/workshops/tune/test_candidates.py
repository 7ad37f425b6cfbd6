"""What is tried: the default first, nothing that the target decides, and no large copies."""

from __future__ import annotations

from aotc.workshops.tune.candidates import CANDIDATES, CAPTURED_BYTES_MAX, candidates_for


def names(options: dict[str, str], weight_bytes: int) -> list[str]:
    return [c.name for c in candidates_for(options, weight_bytes=weight_bytes)]


def test_the_default_comes_first_then_options_by_name_then_captured_weights_by_name() -> None:
    every = names({}, CAPTURED_BYTES_MAX)
    assert every[0] == "default" and len(set(every)) == len(every) == len(CANDIDATES)
    bound = [c.name for c in CANDIDATES[1:] if not c.captures]
    captured = [c.name for c in CANDIDATES[1:] if c.captures]
    assert every[1:] == sorted(bound) + sorted(captured)
    assert not CANDIDATES[0].options and not CANDIDATES[0].captures


def test_weights_are_captured_only_where_there_are_any_and_they_are_small() -> None:
    bound = [c.name for c in CANDIDATES if not c.captures]
    assert names({}, 0) == names({}, CAPTURED_BYTES_MAX + 1) == bound
    assert len(names({}, 1)) > len(bound)


def test_what_the_target_file_says_is_not_varied() -> None:
    left = names({"xla_cpu_experimental_ynn_fusion_type": ""}, 1)
    assert left == ["default", "o2", "wide", "captured"]
