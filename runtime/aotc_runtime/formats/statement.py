"""in-toto Statement v1: https://github.com/in-toto/attestation/blob/v1.1.0/spec/v1/statement.md."""

from __future__ import annotations

import msgspec
from msgspec import Struct

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PROVENANCE_TYPE = "https://slsa.dev/provenance/v1"


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
