"""What is run before a bundle is called ready."""

from __future__ import annotations

from pathlib import Path

import pytest

import aotc_runtime
from aotc_runtime import LoadedEntryPoint
from aotc_runtime.serving import readiness


@pytest.mark.parametrize(("seconds", "is_warmed"), [(0.0, False), (60.0, True)])
def test_only_what_runs_shortly_is_called_again_to_warm_up(
    seconds: float,
    is_warmed: bool,
    digits_bundle: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warmed: list[str] = []
    warm = LoadedEntryPoint.warm

    def noted(self: LoadedEntryPoint, leaves: list[readiness.Array]) -> None:
        warmed.append(self.name)
        warm(self, leaves)

    monkeypatch.setattr(LoadedEntryPoint, "warm", noted)
    monkeypatch.setattr(readiness, "WARM_SECONDS_MAX", seconds)
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        fixtures = bundle.report()["fixtures"]
        assert len(warmed) == (len(fixtures) if is_warmed else 0)
        assert fixtures
