"""The error families that only a build can meet; the runtime does not know what capture is.

What each code means stands in `aotc.base.codes`, which is imported inside of functions: it is of no
use before something is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aotc_runtime.base.errors import AotcError, Finding


class UsageError(AotcError):
    """AOTC-E0xx: a command was given arguments it cannot work with."""

    exit_code = 2


class BuildManifestError(AotcError):
    """AOTC-E80x: the build manifest or a target file says something that cannot be built."""

    exit_code = 3


class CaptureError(AotcError):
    """AOTC-E82x: the program does something that cannot be shipped."""

    exit_code = 3


class CompileError(AotcError):
    """AOTC-E90x, E91x: the compiler failed, crashed or was not available."""

    exit_code = 4


class ReproducibilityError(AotcError):
    """AOTC-E94x: a build that gave another bundle than the same build before."""

    exit_code = 10


class ParityError(AotcError):
    """AOTC-E95x: an executable's results differ from plain JAX by more than the tolerance."""

    exit_code = 8


class FleetError(AotcError):
    """AOTC-E96x: a host on which no target of a bundle runs."""

    exit_code = 7


class BudgetExceededError(AotcError):
    """AOTC-E97x: a size, memory or time budget was exceeded."""

    exit_code = 9


class AbortedError(AotcError):
    """AOTC-E981: Ctrl-C (SIGINT) stopped the command; the exit code is what shells show for it."""

    exit_code = 130


class TerminatedError(AotcError):
    """AOTC-E982: SIGTERM stopped the command; the exit code is what shells show for it."""

    exit_code = 143


class HungUpError(AotcError):
    """AOTC-E983: SIGHUP stopped the command; the exit code is what shells show for it."""

    exit_code = 129


def family_of(code: str) -> type[AotcError]:
    """The exception class of a code of the toolchain or the runtime. Raises KeyError for others."""
    from aotc.base.codes import FAMILY_OF

    return FAMILY_OF[code].error


def is_code(text: str) -> bool:
    """Whether a text from elsewhere is a code of ours, so that it has a family."""
    from aotc.base.codes import FAMILY_OF

    return text in FAMILY_OF


def finding(
    code: str,
    where: str,
    found: str,
    *,
    expected: str | None = None,
    hint: str | None = None,
    **values: object,
) -> Finding:
    """A finding in the words of the catalogue, as `aotc_runtime.base.errors.finding` makes them of
    the runtime's codes alone.
    """
    from aotc.base.codes import FAMILY_OF

    return FAMILY_OF[code].finding(code, where, found, expected, hint, values)


def refusal(
    code: str,
    where: str,
    found: str,
    *,
    expected: str | None = None,
    hint: str | None = None,
    **values: object,
) -> AotcError:
    """The exception for one `finding`."""
    return family_of(code)(finding(code, where, found, expected=expected, hint=hint, **values))


def quoted(text: str, lines: Sequence[str]) -> str:
    """A text, and below it lines that somebody else printed; `render` indents them."""
    return "\n".join([text, *(f"| {line}" for line in lines)])


def raise_if(findings: Iterable[Finding]) -> None:
    """Raise all findings together, as the family of the first; return when there are none."""
    collected = tuple(findings)
    if collected:
        raise family_of(collected[0].code)(*collected)
