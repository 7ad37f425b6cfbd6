"""Errors as data first (`Finding`), and as exceptions second.

A check yields findings; `raise_if` turns them into an exception, and `rendering` into text. The
range of a code decides its exception class, and that the exit code; both are stable. The texts of
the codes are in `error_codes.toml`, read by `aotc_runtime.base.codes`. That module and `rendering`
are imported inside functions, because a load that succeeds needs neither.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from aotc_runtime.base import Finding as Finding


class AotcError(Exception):
    """Base of every error that aotc raises on purpose; carries findings, each of them once."""

    exit_code: ClassVar[int] = 1
    prefixes: ClassVar[tuple[str, ...]] = ()
    """The first characters of the codes of a class; each code has one class."""

    def __init__(self, *findings: Finding) -> None:
        if not findings:
            raise ValueError("an AotcError needs at least one Finding")
        self.findings: tuple[Finding, ...] = tuple(dict.fromkeys(findings))
        super().__init__(*self.findings)

    @property
    def code(self) -> str:
        """The code of the first finding."""
        return self.findings[0].code

    def __str__(self) -> str:
        from aotc_runtime.base.rendering import render

        return render(self.findings)


class BundleFormatError(AotcError):
    """AOTC-E1xx: the bytes are not a well-formed bundle."""

    exit_code = 5
    prefixes = ("AOTC-E1",)


class IntegrityError(AotcError):
    """AOTC-E2xx: a digest, a size or the set of blobs is not what was signed."""

    exit_code = 5
    prefixes = ("AOTC-E2",)


class TrustError(AotcError):
    """AOTC-E3xx: nobody this policy trusts vouches for the bundle, or the policy refuses it."""

    exit_code = 5
    prefixes = ("AOTC-E3",)


class IncompatibleRuntimeError(AotcError):
    """AOTC-E4xx: built for another runtime (jaxlib, XLA) than the one running."""

    exit_code = 6
    prefixes = ("AOTC-E4",)


class IncompatibleHostError(AotcError):
    """AOTC-E50x, E51x: this host's processor or devices cannot run the executables."""

    exit_code = 7
    prefixes = ("AOTC-E50", "AOTC-E51")


class ResourceError(AotcError):
    """AOTC-E55x, E56x: too little memory or room, or another resource is missing."""

    exit_code = 7
    prefixes = ("AOTC-E55", "AOTC-E56")


class ShapeError(AotcError):
    """AOTC-E6xx: a call that is not served: by its arguments, or as the bundle is closed."""

    exit_code = 2
    prefixes = ("AOTC-E6",)


class ReadinessError(AotcError):
    """AOTC-E70x: a fixture did not match; the bundle is not ready."""

    exit_code = 8
    prefixes = ("AOTC-E70",)


class BackendError(AotcError):
    """AOTC-E75x: XLA failed to load or to run an executable."""

    exit_code = 7
    prefixes = ("AOTC-E75",)


class ServerError(AotcError):
    """AOTC-E76x, E78x: a server that rejects a request, or cannot start."""

    exit_code = 2
    prefixes = ("AOTC-E76", "AOTC-E78")


class RegistryError(AotcError):
    """AOTC-E77x: a registry that cannot be reached, lets nobody in, or says what none may say."""

    exit_code = 11
    prefixes = ("AOTC-E77",)


def family_of(code: str) -> type[AotcError]:
    """Return the exception class of a code. Raises KeyError for one that no imported class has."""
    for error in AotcError.__subclasses__():
        if code.startswith(error.prefixes):
            return error
    raise KeyError(code)


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
    """Return a finding with the catalogue's texts of a code, or of one of its causes.

    `expected` and `hint` replace the catalogue's; `values` fill its placeholders. Where the
    catalogue cannot be read for lack of memory or descriptors, its texts are missing.
    """
    try:
        from aotc_runtime.base.codes import codes

        texts = codes()
    except (MemoryError, OSError):
        return Finding(code, where, expected or "", found, hint or "")
    words = texts[code].of(cause).words(expected, hint, values)
    return Finding(code=code, where=where, found=found, **words)


def refusal(code: str, where: str, found: str, **words: Any) -> AotcError:
    """Return the exception for one `finding`, which has the same arguments."""
    return family_of(code)(finding(code, where, found, **words))


def raise_if(findings: Iterable[Finding]) -> None:
    """Raise all findings as one error of the first one's class; return if there are none."""
    collected: tuple[Any, ...] = tuple(findings)
    if collected:
        raise family_of(collected[0].code)(*collected)
