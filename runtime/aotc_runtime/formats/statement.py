"""in-toto Statement v1: https://github.com/in-toto/attestation/blob/v1.1.0/spec/v1/statement.md."""

import msgspec
from msgspec import Struct

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PROVENANCE_TYPE = "https://slsa.dev/provenance/v1"
CERTIFICATE_TYPE = "https://aotc.dev/certificate/v1"
SBOM_TYPE = "https://cyclonedx.org/bom"

SILENT_TYPES = frozenset({CERTIFICATE_TYPE, SBOM_TYPE})
"""Predicates that say something of a bundle and vouch for nothing; of no other type can this be
known: a trusted key may as well have signed "do not load this"."""

BUILD_TYPE = "https://aotc.dev/build/v1"
SIGN_TYPE = "https://aotc.dev/sign/v1"
MERGE_TYPE = "https://aotc.dev/merge/v1"
"""Build types of our provenance. The second is that of `aotc sign`, which built nothing; the third
that of `aotc merge`, whose sources are bundles."""


class Subject(Struct, frozen=True):
    """What a statement is about. digest: algorithm to hex."""

    name: str
    digest: dict[str, str]


class Statement(Struct, frozen=True, rename={"type": "_type"}):
    """A statement; the predicate is kept as it stands."""

    type: str
    subject: tuple[Subject, ...]
    predicateType: str
    predicate: msgspec.Raw
