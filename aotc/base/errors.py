"""The error classes that only the toolchain raises; the runtime does not capture or compile.

The texts of the codes are in `error_codes.toml`, read by `aotc.base.codes`. That module is imported
inside functions, because nothing needs it before there is something to report.
"""

from collections.abc import Mapping, Sequence

from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.base.errors import family_of as family_of
from aotc_runtime.base.errors import raise_if as raise_if


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
    from aotc.base.codes import codes

    return text in codes()


def finding(
    code: str,
    where: str,
    found: str,
    *,
    cause: str = "",
    expected: str | None = None,
    hint: str | None = None,
    **values: object,
) -> Finding:
    """Return a finding with the texts of the catalogue.

    Arguments are those of `aotc_runtime.base.errors.finding`, which has only the runtime's codes.
    """
    from aotc.base.codes import codes

    words = codes()[code].of(cause).words(expected, hint, values)
    return Finding(code=code, where=where, found=found, **words)


def refusal(
    code: str,
    where: str,
    found: str,
    *,
    cause: str = "",
    expected: str | None = None,
    hint: str | None = None,
    **values: object,
) -> AotcError:
    """Return the exception for one `finding`, which has the same arguments."""
    made = finding(code, where, found, cause=cause, expected=expected, hint=hint, **values)
    return family_of(code)(made)


def shortened(names: Sequence[str], most: int = 8, between: str = ", ") -> str:
    """Return names as a list, cut short: "a, b, … 3 more"."""
    more = len(names) - most
    return between.join([*names[:most], *([f"… {more} more"] if more > 0 else [])])


def by_reason(reasons: Mapping[str, str]) -> str:
    """Return names with the reason of each, cut short: "a, b (one axis); c (a convolution)"."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    return "; ".join(f"{shortened(each)} ({why})" for why, each in names.items())


def quoted(text: str, lines: Sequence[str]) -> str:
    """Return a text followed by lines that another program printed; `render` indents them."""
    return "\n".join([text, *(f"| {line}" for line in lines)])
