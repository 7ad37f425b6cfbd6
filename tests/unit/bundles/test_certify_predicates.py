"""What a certificate says is what was found, and nothing of it is made up."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from aotc.bundles.certify import NOT_TOLD, predicate_of
from aotc.certify.isolated import Trial
from aotc_runtime.formats.certificate import CRASHED, PASSED, Certificate, FixtureRun, Surroundings

RUN = FixtureRun("f[n=1]", "sha256:1", "sha256:2", True, "0.0", "1e-07", 3, 8, "y", "0.1")
THERE = Surroundings("znver5", ("avx2",), "Linux", "glibc 2.40", "3.13", "0.1", {"jaxlib": "0.12"})
NOW = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


def certificate(trial: Trial) -> Certificate:
    return msgspec.convert(predicate_of(trial, NOW), Certificate)


def test_where_it_ran_and_what_came_of_it_is_stated() -> None:
    made = certificate(Trial("cpu", "0.12.1", PASSED, "", (RUN,), THERE))
    assert (made.outcome, made.fixtures, made.surroundings) == (PASSED, (RUN,), THERE)
    assert (made.target, made.jaxlib, made.certifiedOn) == ("cpu", "0.12.1", NOW)


def test_of_a_process_that_died_before_it_could_say_nothing_is_stated() -> None:
    made = certificate(Trial("cpu", "0.12.1", CRASHED, "SIGILL", (), None))
    assert (made.outcome, made.detail, made.surroundings) == (CRASHED, "SIGILL", NOT_TOLD)
