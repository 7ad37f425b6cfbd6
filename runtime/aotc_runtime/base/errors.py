"""Everything that can be refused, as data first and as exceptions second.

A check yields `Finding`s; `raise_if` is the one place that turns findings into an exception, and
`rendering` the one place that turns them into text. The code of a finding decides its family, and
the family decides the exit code; both are stable. What each code means stands in
`aotc_runtime.base.codes`. Both are imported inside of functions: a load that succeeds has no use
for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One reason for a refusal.

    code: stable, `AOTC-E…`.  where: file, key path, blob or entry point.  expected, found: short
    phrases that complete those words.  hint: what to do or type next.
    """

    code: str
    where: str
    expected: str
    found: str
    hint: str

    def to_json(self) -> dict[str, str]:
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
    """The exception class of a code. Raises KeyError for one that is not in the catalogue."""
    from aotc_runtime.base.codes import FAMILY_OF

    return FAMILY_OF[code].error


def finding(
    code: str,
    where: str,
    found: str,
    *,
    expected: str | None = None,
    hint: str | None = None,
    **values: object,
) -> Finding:
    """A finding in the words of the catalogue. expected, hint: instead of those, or where the
    catalogue has none.  values: for the places in its words.
    """
    from aotc_runtime.base.codes import FAMILY_OF

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


def raise_if(findings: Iterable[Finding]) -> None:
    """Raise all findings together, as the family of the first; return when there are none."""
    collected: tuple[Any, ...] = tuple(findings)
    if collected:
        raise family_of(collected[0].code)(*collected)
