"""The error classes that only the toolchain raises; the runtime does not capture or compile.

The texts of the codes are in `error_codes.toml`, read by `aotc.base.codes`. That module is imported
inside functions, because nothing needs it before there is something to report.
"""

from collections.abc import Iterable, Sequence

from aotc_runtime.base.errors import AotcError, Finding


class UsageError(AotcError):
    """AOTC-E0xx: a command was given arguments it cannot work with."""

    exit_code = 2


class BuildManifestError(AotcError):
    """AOTC-E80x: the build manifest or a target file is invalid."""

    exit_code = 3


class CaptureError(AotcError):
    """AOTC-E82x: the program does something that cannot be shipped."""

    exit_code = 3


class CompileError(AotcError):
    """AOTC-E90x, E91x: the compiler failed, crashed or was not available."""

    exit_code = 4


class ReproducibilityError(AotcError):
    """AOTC-E94x: a repeated build gave another bundle."""

    exit_code = 10


class ParityError(AotcError):
    """AOTC-E95x: an executable's results differ from plain JAX by more than the tolerance."""

    exit_code = 8


class EngineFailedError(ParityError):
    """AOTC-E953 alone: an engine that fails to load or to call what was compiled for it."""


class FleetError(AotcError):
    """AOTC-E96x: no target of a bundle runs on a host."""

    exit_code = 7


class BudgetExceededError(AotcError):
    """AOTC-E97x: a size, memory or time budget was exceeded."""

    exit_code = 9


class AbortedError(AotcError):
    """AOTC-E981: Ctrl-C (SIGINT) stopped the command; the exit code is the one that shells show."""

    exit_code = 130


class TerminatedError(AotcError):
    """AOTC-E982: SIGTERM stopped the command; the exit code is the one that shells show."""

    exit_code = 143


class HungUpError(AotcError):
    """AOTC-E983: SIGHUP stopped the command; the exit code is the one that shells show."""

    exit_code = 129


def family_of(code: str) -> type[AotcError]:
    """Return the exception class of a code of the toolchain or the runtime, or raise KeyError."""
    from aotc.base.codes import FAMILIES
    from aotc_runtime.base.codes import family_in

    return family_in(FAMILIES, code).error


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

    return codes()[code].of(cause).finding(code, where, found, expected, hint, values)


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


def quoted(text: str, lines: Sequence[str]) -> str:
    """Return a text followed by lines that another program printed; `render` indents them."""
    return "\n".join([text, *(f"| {line}" for line in lines)])


def raise_if(findings: Iterable[Finding]) -> None:
    """Raise all findings as one error of the first one's class; return if there are none."""
    collected = tuple(findings)
    if collected:
        raise family_of(collected[0].code)(*collected)
