"""The catalogue of error codes of the toolchain, and of the runtime, which it raises too.

`error_codes.toml` holds the texts. Both files are read when there is an error to report.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import aotc_runtime.base.codes
from aotc.base.errors import (
    AbortedError,
    BudgetExceededError,
    BuildManifestError,
    CaptureError,
    CompileError,
    FleetError,
    HungUpError,
    ParityError,
    ReproducibilityError,
    TerminatedError,
    UsageError,
)
from aotc_runtime.base.codes import Code, Family, read_codes

FAMILIES: tuple[Family, ...] = (
    *aotc_runtime.base.codes.FAMILIES,
    Family(UsageError, ("AOTC-E0",), "usage"),
    Family(BuildManifestError, ("AOTC-E80", "AOTC-E81"), "build manifest and target files"),
    Family(CaptureError, ("AOTC-E82", "AOTC-E83", "AOTC-E84"), "capture"),
    Family(CompileError, ("AOTC-E90", "AOTC-E91"), "compile"),
    Family(ReproducibilityError, ("AOTC-E94",), "reproducibility"),
    Family(ParityError, ("AOTC-E95",), "parity"),
    Family(FleetError, ("AOTC-E96",), "fleets"),
    Family(BudgetExceededError, ("AOTC-E97",), "budgets"),
    Family(AbortedError, ("AOTC-E981",), "Ctrl-C"),
    Family(TerminatedError, ("AOTC-E982",), "SIGTERM"),
    Family(HungUpError, ("AOTC-E983",), "SIGHUP"),
)


@cache
def own_codes() -> Mapping[str, Code]:
    """Return the codes that only the toolchain has."""
    return read_codes(Path(__file__).with_name("error_codes.toml"))


@cache
def codes() -> Mapping[str, Code]:
    """Return the codes of the toolchain and the runtime."""
    return {**aotc_runtime.base.codes.codes(), **own_codes()}
