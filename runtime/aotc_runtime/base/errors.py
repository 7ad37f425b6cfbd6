"""Errors as data first (`Finding`), and as exceptions second.

A check yields findings; `raise_if` turns them into an exception, and `rendering` into text. The
range of a code decides its exception class, and that the exit code; both are stable. The texts of
the codes are in `error_codes.toml`, read by `aotc_runtime.base.codes`. That module and `rendering`
are imported inside functions, because a load that succeeds needs neither.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One error: its code and title, its place, and what to do.

    Attributes:
        code: Stable, `AOTC-E…`.
        where: The file with the key path, the blob, or the entry point.
        expected, found: A value or a short noun phrase; empty where it would add nothing.
        hint: What to do or type next; may be empty.
        title: The catalogue's, by code and cause; empty in findings that other versions made.
    """

    code: str
    where: str
    expected: str
    found: str
    hint: str
    title: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the finding's fields as JSON-able text."""
        from aotc_runtime.base.rendering import to_json

        return to_json(self)


class AotcError(Exception):
    """Base of every error that aotc raises on purpose; carries findings, each of them once."""

    exit_code: ClassVar[int] = 1

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


class IntegrityError(AotcError):
    """AOTC-E2xx: a digest, a size or the set of blobs is not what was signed."""

    exit_code = 5


class TrustError(AotcError):
    """AOTC-E3xx: nobody this policy trusts vouches for the bundle, or the policy refuses it."""

    exit_code = 5


class IncompatibleRuntimeError(AotcError):
    """AOTC-E4xx: built for another runtime (jaxlib, XLA) than the one running."""

    exit_code = 6


class IncompatibleHostError(AotcError):
    """AOTC-E50x, E51x: this host's processor or devices cannot run the executables."""

    exit_code = 7


class ResourceError(AotcError):
    """AOTC-E55x, E56x: too little memory or room, or another resource is missing."""

    exit_code = 7


class ShapeError(AotcError):
    """AOTC-E6xx: a call whose arguments, shapes or dtypes no executable serves."""

    exit_code = 2


class ReadinessError(AotcError):
    """AOTC-E70x: a fixture did not match; the bundle is not ready."""

    exit_code = 8


class BackendError(AotcError):
    """AOTC-E75x: XLA failed to load or to run an executable."""

    exit_code = 7


class RegistryError(AotcError):
    """AOTC-E77x: a registry that cannot be reached, lets nobody in, or says what none may say."""

    exit_code = 11


def family_of(code: str) -> type[AotcError]:
    """Return the exception class of a code. Raises KeyError for a code that the runtime lacks.

    Where the catalogue cannot be imported for lack of memory or descriptors, it is ResourceError.
    """
    try:
        from aotc_runtime.base.codes import FAMILIES, family_in
    except (MemoryError, OSError):
        return ResourceError
    return family_in(FAMILIES, code).error


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
    return texts[code].of(cause).finding(code, where, found, expected, hint, values)


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


def raise_if(findings: Iterable[Finding]) -> None:
    """Raise all findings as one error of the first one's class; return if there are none."""
    collected: tuple[Any, ...] = tuple(findings)
    if collected:
        raise family_of(collected[0].code)(*collected)
