"""The error classes that only the toolchain raises; the runtime does not capture or compile.

The texts of their codes are in `error_codes.toml`, which is added to the runtime's. Findings of
both are made by the runtime's functions, which are exported here, so that both are known.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from aotc_runtime.base.codes import catalogues, codes
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.errors import family_of as family_of
from aotc_runtime.base.errors import finding as finding
from aotc_runtime.base.errors import raise_if as raise_if
from aotc_runtime.base.errors import refusal as refusal

catalogues.append(Path(__file__).with_name("error_codes.toml"))


class UsageError(AotcError):
    """AOTC-E0xx: a command was given arguments it cannot work with."""

    exit_code = 2
    prefixes = ("AOTC-E0",)


class BuildManifestError(AotcError):
    """AOTC-E80x: the build manifest or a target file is invalid."""

    exit_code = 3
    prefixes = ("AOTC-E80", "AOTC-E81")


class CaptureError(AotcError):
    """AOTC-E82x: the program does something that cannot be shipped."""

    exit_code = 3
    prefixes = ("AOTC-E82", "AOTC-E83", "AOTC-E84")


class CompileError(AotcError):
    """AOTC-E90x, E91x: the compiler failed, crashed or was not available."""

    exit_code = 4
    prefixes = ("AOTC-E90", "AOTC-E91")


class ReproducibilityError(AotcError):
    """AOTC-E94x: a repeated build gave another bundle."""

    exit_code = 10
    prefixes = ("AOTC-E94",)


class ParityError(AotcError):
    """AOTC-E95x: an executable's results differ from plain JAX by more than the tolerance."""

    exit_code = 8
    prefixes = ("AOTC-E95",)


class EngineFailedError(ParityError):
    """AOTC-E951 and E953 alone: an engine that computes wrong results, or cannot run a program."""


class FleetError(AotcError):
    """AOTC-E96x: no target of a bundle runs on a host."""

    exit_code = 7
    prefixes = ("AOTC-E96",)


class BudgetExceededError(AotcError):
    """AOTC-E97x: a size, memory or time budget was exceeded."""

    exit_code = 9
    prefixes = ("AOTC-E97",)


class AbortedError(AotcError):
    """AOTC-E981: Ctrl-C (SIGINT) stopped the command; the exit code is the one that shells show."""

    exit_code = 130
    prefixes = ("AOTC-E981",)


class TerminatedError(AotcError):
    """AOTC-E982: SIGTERM stopped the command; the exit code is the one that shells show."""

    exit_code = 143
    prefixes = ("AOTC-E982",)


class HungUpError(AotcError):
    """AOTC-E983: SIGHUP stopped the command; the exit code is the one that shells show."""

    exit_code = 129
    prefixes = ("AOTC-E983",)


def is_code(text: str) -> bool:
    """Return whether a text is a code of the catalogue."""
    return text in codes()


def shorten(names: Sequence[str], most: int = 8, between: str = ", ") -> str:
    """Return names as a list, cut short: "a, b, … 3 more"."""
    more = len(names) - most
    return between.join([*names[:most], *([f"… {more} more"] if more > 0 else [])])


def by_reason(reasons: Mapping[str, str]) -> str:
    """Return names with the reason of each, cut short: "a, b (one axis); c (a convolution)"."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    return "; ".join(f"{shorten(each)} ({why})" for why, each in names.items())


def quote(text: str, lines: Sequence[str]) -> str:
    """Return a text followed by lines that another program printed; `render` indents them."""
    return "\n".join([text, *(f"| {line}" for line in lines)])
