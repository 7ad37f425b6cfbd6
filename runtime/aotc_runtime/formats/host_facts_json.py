"""A host as a JSON document: what `host-info` prints and `aotc compat --hosts` reads."""

from typing import Any

import msgspec
from msgspec import Struct

from aotc_runtime.schema.host_facts import HostFacts

KIND = "aotc-host"
SCHEMA = 1
"""Counts up when a field changes its meaning or goes away; new fields may come without."""


class HostDocument(Struct, frozen=True):
    """A description of a host; facts that a writer does not know have their defaults."""

    kind: str
    schema: int
    facts: HostFacts


def host_document(facts: HostFacts) -> dict[str, Any]:
    """Return the facts as a document, JSON-able; the same facts give the same document."""
    document: dict[str, Any] = msgspec.to_builtins(
        HostDocument(KIND, SCHEMA, facts), order="deterministic"
    )
    return document
