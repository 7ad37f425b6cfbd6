"""Reads the log of XLA's passes.

`TF_CPP_VMODULE=hlo_pass_pipeline=3` makes xla/hlo/pass/hlo_pass_pipeline.cc log every pass. It is
always set, since some executables get other bytes without it (`tests/golden/trees.aotb`).
"""

import re
from collections.abc import Iterable

from aotc.base.evidence import Pipeline

ENVIRONMENT = {"TF_CPP_VMODULE": "hlo_pass_pipeline=3", "TF_CPP_MIN_LOG_LEVEL": "0"}
"""Variables of the process that compiles."""

_INFORMATION = re.compile(r"\AI\d{4} .*?\] ?(.*)\Z")
_PIPELINE = re.compile(r"\ARunning HLO pass pipeline on module \S+: (.+)\Z")
_PASS = re.compile(r"\A\s+HLO pass (?!pipeline)(.+)\Z")
_CHANGED = re.compile(r"\A\s+Pass caused changes (.+)\Z")


def split(lines: Iterable[str]) -> tuple[tuple[Pipeline, ...], list[str]]:
    """Return the pipelines in a log, in order of their start, and the other lines.

    The latter are warnings, and lines that are not from XLA. XLA does not log the end of a
    pipeline, so a pass after a nested pipeline counts as part of that.
    """
    rest: list[str] = []
    names: list[str] = []
    passes: list[int] = []
    changed: list[list[str]] = []
    for line in lines:
        information = _INFORMATION.match(line)
        if not information:
            rest.append(line)
            continue
        text = information[1]
        if found := _PIPELINE.match(text):
            names.append(found[1])
            passes.append(0)
            changed.append([])
        elif names and _PASS.match(text):
            passes[-1] += 1
        elif names and (found := _CHANGED.match(text)):
            changed[-1].append(found[1])
    return tuple(
        Pipeline(name=name, passes=number, changed=tuple(what))
        for name, number, what in zip(names, passes, changed, strict=True)
    ), rest
