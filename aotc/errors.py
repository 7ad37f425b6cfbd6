"""The error families that only a build can meet; the runtime does not know what capture is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aotc_runtime.errors import FAMILIES, AotcError, Finding, family_of


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


BUILD_FAMILIES: tuple[tuple[str, type[AotcError]], ...] = (
    ("AOTC-E0", UsageError),
    ("AOTC-E80", BuildManifestError),
    ("AOTC-E81", BuildManifestError),
    ("AOTC-E82", CaptureError),
    ("AOTC-E83", CaptureError),
    ("AOTC-E84", CaptureError),
    ("AOTC-E90", CompileError),
    ("AOTC-E91", CompileError),
    ("AOTC-E94", ReproducibilityError),
    ("AOTC-E95", ParityError),
    ("AOTC-E96", FleetError),
    ("AOTC-E97", BudgetExceededError),
    ("AOTC-E981", AbortedError),
    ("AOTC-E982", TerminatedError),
    ("AOTC-E983", HungUpError),
)


def is_code(text: str) -> bool:
    """Whether a text from elsewhere begins like a code of ours, so that it has a family."""
    known = (prefix for prefix, _ in (*BUILD_FAMILIES, *FAMILIES))
    return text.startswith(tuple(known))


def quoted(text: str, lines: Sequence[str]) -> str:
    """A text, and below it lines that somebody else printed; `render` indents them."""
    return "\n".join([text, *(f"| {line}" for line in lines)])


def raise_if(findings: Iterable[Finding]) -> None:
    """As `aotc_runtime.errors.raise_if`, with the build families included."""
    collected = tuple(findings)
    if collected:
        raise family_of(collected[0].code, BUILD_FAMILIES)(*collected)
