"""The result of `aotc certify`: as a document, as findings, and as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from aotc.base.errors import finding
from aotc.commands.certify.certify_bundle import Certification
from aotc.commands.certify.certify_process import Trial
from aotc.report.report_text import count
from aotc_runtime.base import ulps
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.rendering import printable
from aotc_runtime.formats.certificate_predicate import BEYOND, HUNG, PASSED, REFUSED
from aotc_runtime.schema.bundle_manifest import Parity, ParityRan

SHOWN_MAX = 12
"""Fixtures of one trial that are shown; `--json` has all."""


def certify_document(bundle: str, made: Certification) -> dict[str, Any]:
    """JSON-able, without the findings. bundle: its path, as the caller spelled it."""
    return {
        "bundle": bundle,
        "name": made.name,
        "version": made.version,
        "root_digest": made.root_digest,
        "key_id": made.key_id or None,
        "certificates_added": made.added,
        "trials": [_trial_document(trial, made.parity) for trial in made.trials],
        "missing": [finding.to_json() for finding in made.missing],
    }


def _trial_document(trial: Trial, parity: Mapping[tuple[str, str], Parity]) -> dict[str, Any]:
    where = trial.surroundings
    return {
        "target": trial.target,
        "package": trial.release.package,
        "version": trial.release.version,
        "outcome": trial.outcome or None,
        "detail": trial.detail,
        "cpu": where.cpu if where else None,
        "packages": dict(sorted(where.packages.items())) if where else None,
        "not_run": [finding.to_json() for finding in trial.findings] if not trial.outcome else [],
        "fixtures": [
            {
                "label": run.label,
                "within_tolerance": run.withinTolerance,
                "max_abs": run.maxAbs,
                "max_rel": run.maxRel,
                "ulp_max": run.ulpMax,
                "elements": run.elements,
                "worst": run.worst,
                "seconds": float(run.seconds),
                "ulp_max_at_build": _at_build(parity, trial, run.label),
            }
            for run in trial.fixtures
        ],
    }


def _at_build(parity: Mapping[tuple[str, str], Parity], trial: Trial, label: str) -> int | None:
    """Units in the last place that the build measured; None if it did not run there."""
    found = parity.get((trial.target, label))
    return found.ulp_max if isinstance(found, ParityRan) else None


CAUSES = {HUNG: "certification-timed-out", REFUSED: "runtime-rejected-the-bundle"}
"""By outcome, the cause of AOTC-E958; other outcomes have the code's own title."""


def certify_findings(made: Certification) -> Iterator[Finding]:
    """Yield failures (AOTC-E957, E958), unavailable versions, and targets that cannot run here."""
    for trial in made.trials:
        if trial.outcome in ("", PASSED):
            continue
        where = f"{trial.target} with {trial.release}"
        if trial.outcome == BEYOND:
            yield finding("AOTC-E957", where, trial.detail)
        else:
            yield finding("AOTC-E958", where, trial.detail, cause=CAUSES.get(trial.outcome, ""))
    yield from made.missing
    for trial in made.trials:
        if not trial.outcome:
            yield from trial.findings


def certify_lines(made: Certification) -> list[str]:
    """Return a certification as lines for people, trial by trial."""
    return [printable(line) for line in _lines(made)]


def _lines(made: Certification) -> Iterator[str]:
    yield f"{made.name} {made.version}, root {made.root_digest}"
    for trial in made.trials:
        seconds = sum(float(run.seconds) for run in trial.fixtures)
        ran = f"{count(len(trial.fixtures), 'fixture')} in {seconds:.3f} s"
        yield ""
        yield f"{trial.target} with {trial.release}: {trial.outcome or 'not run here'}, {ran}"
        if trial.detail:
            yield from (f"  {line}" for line in trial.detail.splitlines())
        yield from _table(trial, made.parity)
    if made.added:
        yield ""
        yield f"added {count(made.added, 'certificate')}, signed with key {made.key_id[:16]}"


def _table(trial: Trial, parity: Mapping[tuple[str, str], Parity]) -> Iterator[str]:
    shown = sorted(trial.fixtures, key=lambda run: (run.withinTolerance, -run.ulpMax))[:SHOWN_MAX]
    if not shown:
        return
    width = max(7, *(len(run.label) for run in shown))
    heads = f"{'max abs':>9}  {'max rel':>9}  {'ulp':>7}  {'at build':>8}  {'s':>8}"
    yield f"  {'fixture':<{width}}  {heads}"
    for run in shown:
        built = _at_build(parity, trial, run.label)
        yield (
            f"  {run.label:<{width}}  {float(run.maxAbs):>9.2g}  {float(run.maxRel):>9.2g}  "
            f"{ulps(run.ulpMax):>7}  {'-' if built is None else ulps(built):>8}  {run.seconds:>8}"
            + ("" if run.withinTolerance else "  BEYOND")
        )
    if len(trial.fixtures) > len(shown):
        yield f"  and {len(trial.fixtures) - len(shown)} more, which differ by no more ulp"
