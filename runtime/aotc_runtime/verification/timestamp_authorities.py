"""The authorities of a trust policy that say when signatures were made: their certificates.

Imported where a policy names some.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cryptography import x509

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.trust_policy import TimestampAuthority, TrustPolicy
from aotc_runtime.verification.package_errors import reason_of


def check_authorities(policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """AOTC-E309 for each authority whose certificates are none, or stated twice."""
    for index, authority in enumerate(policy.timestamp_authorities):
        place = _place(where, index, authority)
        if bool(authority.certificates) == bool(authority.certificates_file):
            yield finding(
                "AOTC-E309",
                place,
                "both" if authority.certificates else "neither",
                expected="exactly one of certificates and certificates_file",
                hint="certificates holds PEM text, certificates_file the path of a file with it",
            )
            continue
        try:
            certificates_of(authority)
        except ValueError as error:
            yield _no_certificates(place, error)


def certificates_of(authority: TimestampAuthority) -> list[Any]:
    """Its certificates, at least one. Raises ValueError for what holds none."""
    return x509.load_pem_x509_certificates(authority.certificates.encode())


def _no_certificates(where: str, error: ValueError) -> Finding:
    return finding(
        "AOTC-E309",
        where,
        reason_of(error),
        expected="PEM certificates: the authority's root, and those between",
        hint="ask the authority for its chain of certificates",
    )


def _place(where: str, index: int, authority: TimestampAuthority) -> str:
    return f"{where} timestamp_authorities[{index}] {authority.name}".rstrip()
