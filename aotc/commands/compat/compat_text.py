"""The result of `aotc compat`, as data and as text."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from aotc.base.errors import finding, shorten
from aotc.bundle.read.opened_bundle import Opened
from aotc.commands.compat.compat_matrix import Cell, Evidence, Level, Row
from aotc.report.report_text import count
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.rendering import printable
from aotc_runtime.formats.certificate_predicate import PASSED
from aotc_runtime.verification.choice_report import certified_report

WIDTH = 80


def compat_document(bundle: str, read: Opened, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the matrix as JSON, without findings; `bundle` is the caller's path."""
    return {
        "bundle": bundle,
        "name": read.name,
        "version": read.version,
        "root_digest": read.root_digest,
        "signatures_verified": read.verified,
        "targets": sorted(read.contents.manifests),
        "absent_targets": list(read.contents.absent),
        "hosts": [_row_document(row) for row in rows],
        "without_target": sorted({row.host for row in rows if row.runs is None}),
    }


def _row_document(row: Row) -> dict[str, Any]:
    return {
        "host": row.host,
        "cpu": row.facts.cpu,
        "jaxlib": row.facts.jaxlib,
        "runs": row.runs,
        "level": row.level.value,
        "targets": [_cell_document(cell) for cell in row.cells],
        "build_for": list(row.build_for),
    }


def _cell_document(cell: Cell) -> dict[str, Any]:
    certified = certified_report(cell.evidence.certified)
    return {
        "target": cell.target,
        "level": cell.level.value,
        "findings": [finding.to_json() for finding in cell.findings],
        "evidence": asdict(cell.evidence) | {"certified": certified},
    }


def compat_findings(rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield AOTC-E961 for each host, with each jaxlib, on which no target runs."""
    for row in rows:
        if row.runs is not None:
            continue
        reasons = "; ".join(
            f"{cell.target}: {', '.join(f.code for f in cell.findings)}" for cell in row.cells
        )
        if row.build_for:
            hint = f"build for {row.build_for[0]} too, and join both with `aotc merge`"
        elif row.level is Level.UNKNOWN:
            cell = row.cells[0]
            hint = f"{cell.findings[0].hint}, or {_by_certificate(cell.evidence)}"
        else:
            hint = row.cells[0].findings[0].hint
        yield finding(
            "AOTC-E961", f"{row.host} with jaxlib {row.facts.jaxlib}", f"none: {reasons}", hint=hint
        )


def _by_certificate(evidence: Evidence) -> str:
    """Return how a certificate would count; an existing one that passed comes first."""
    passed = next((claim for claim in evidence.certificates if claim.outcome == PASSED), None)
    if passed is None:
        return "`aotc certify` it by a certifier of --trust"
    return (
        f"if you trust {', '.join(passed.keys)}, whose certificate does not count yet, "
        "`aotc trust add-key trust.toml --key KEY --certifier`"
    )


def compat_lines(document: dict[str, Any]) -> list[str]:
    """Return the matrix as lines of 80 columns, with hosts of equal results together."""
    lines = [f"{document['name']} {document['version']} for {', '.join(document['targets'])}"]
    if document["absent_targets"]:
        lines.append(f"absent from this copy: {', '.join(document['absent_targets'])}")
    alike: dict[str, list[dict[str, Any]]] = {}
    for row in document["hosts"]:
        alike.setdefault(_key(row), []).append(row)
    for rows in alike.values():
        lines += ["", *_group(rows)]
    hosts = {row["host"] for row in document["hosts"]}
    without = document["without_target"]
    lines += ["", f"{len(hosts) - len(without)} of {count(len(hosts), 'host')} can run this bundle"]
    for target in document["targets"]:
        on = [row["host"] for row in document["hosts"] if row["runs"] == target]
        lines.append(f"  {target} on {shorten(list(dict.fromkeys(on))) or 'none'}")
    if without:
        lines.append(f"  nothing on {shorten(without)}")
    return [folded for line in lines for folded in _wrap(printable(line))]


def _key(row: dict[str, Any]) -> str:
    """Return a text that is the same for hosts of which the same is said."""
    return repr((row["cpu"], row["jaxlib"], row["build_for"], [*_cells(row)]))


def _group(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    row = rows[0]
    yield f"{shorten([r['host'] for r in rows])}: {row['cpu']}, jaxlib {row['jaxlib']}"
    yield from _cells(row)
    if row["build_for"]:
        yield f"  would run {', '.join(row['build_for'])}: build for one of them"


def _cells(row: dict[str, Any]) -> Iterator[str]:
    width = max(len(cell["target"]) for cell in row["targets"])
    for cell in row["targets"]:
        mark = "*" if cell["target"] == row["runs"] else " "
        yield f"{mark} {cell['target']:<{width}}  {cell['level']:<7}  {_why(cell)}"


def _why(cell: dict[str, Any]) -> str:
    evidence = cell["evidence"]
    if cell["findings"]:
        reasons = [_reason(cell, finding) for finding in cell["findings"]]
        return "; ".join([*reasons, *map(_claim, evidence["certificates"])])
    has = f"has all {count(len(evidence['required_features']), 'feature')}"
    known = f"{has}, built with {evidence['compiled_by']}, {_parity(evidence)}"
    if (by := evidence["certified"]) is not None:
        names = ", ".join(name or id[:16] for id, name in zip(by["keys"], by["names"], strict=True))
        ulp = max((difference["ulp_max"] for difference in by["differences"]), default=0)
        known += (
            f"; {by['package']} {by['version']} certified by {names} on {by['certified_on']} "
            f"({by['cpu']}, up to {ulp} ulp)"
        )
    return known


def _parity(evidence: dict[str, Any]) -> str:
    """Return the build's measurements of its executables."""
    parity = evidence["parity_at_build"]
    if not parity["ran"]:
        return f"not run at build ({parity['reason']})"
    some = "" if parity["ran"] == parity["all"] else f"{parity['ran']} of "
    return f"{some}{count(parity['all'], 'fixture')} ran there, up to {parity['ulp_max']} ulp"


def _claim(claim: dict[str, Any]) -> str:
    """Return a line about a certificate that does not count here."""
    by = ", ".join(key[:16] for key in claim["keys"]) or "a key that is not named"
    return (
        f"a certificate says {claim['outcome']} (by {by} on {claim['certified_on']}, "
        f"{claim['cpu']}, up to {claim['ulp_max']} ulp)"
    )


def _reason(cell: dict[str, Any], finding: dict[str, str]) -> str:
    if finding["code"] == "AOTC-E502":
        return f"{finding['code']} lacks {', '.join(cell['evidence']['missing_features'])}"
    return f"{finding['code']} expected {finding['expected']}, found {finding['found']}"


def _wrap(line: str) -> list[str]:
    # Reasons go on below where they begin.
    deep = len(line) - len(line.lstrip(" *"))
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=" " * (4 if deep else 2), break_on_hyphens=False
    ) or [""]
