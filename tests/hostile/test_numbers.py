"""Documents of bundles hold no number that whoever shows or adds it could not."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from aotc.base.evidence import Evidence
from aotc.bundle.read.bundle_review import review
from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats.certificate_predicate import Certificate
from aotc_runtime.formats.oci_layout import AttestationManifest, ImageManifest, RootIndex
from aotc_runtime.formats.slsa_provenance import Provenance
from aotc_runtime.schema.bundle_manifest import BundleManifest

from .provenances import NOW
from .tampering import Documents, signed, swap_layer


def unbounded(found: inspect.Type, path: str, seen: set[type]) -> Iterator[str]:
    """Yield where a type takes any number at all."""
    match found:
        case inspect.IntType(ge=None) | inspect.IntType(le=None) | inspect.FloatType():
            yield path
        case inspect.StructType() if found.cls not in seen:
            seen.add(found.cls)
            for each in found.fields:
                yield from unbounded(each.type, f"{path}.{each.name}", seen)
        case inspect.UnionType():
            for one in found.types:
                yield from unbounded(one, path, seen)
        case inspect.DictType():
            yield from unbounded(found.value_type, path, seen)
        case inspect.ListType() | inspect.VarTupleType():
            yield from unbounded(found.item_type, path, seen)
        case inspect.TupleType():
            for one in found.item_types:
                yield from unbounded(one, path, seen)


@pytest.mark.parametrize(
    "document",
    [
        *(AttestationManifest, BundleManifest, Certificate, Evidence, ImageManifest, Provenance),
        RootIndex,
    ],
)
def test_every_number_of_a_document_has_bounds(document: type) -> None:
    assert list(unbounded(inspect.type_info(document), "", set())) == []


class Inner(msgspec.Struct):
    sizes: dict[str, tuple[int, ...]]


class Outer(msgspec.Struct):
    inner: Inner | None
    share: float


def test_a_type_without_bounds_is_found() -> None:
    found = unbounded(inspect.type_info(Outer), "", set())
    assert list(found) == [".inner.sizes", ".share"]


def with_numbers(value: Any, number: int) -> Any:
    """All counts replaced, but for the sizes that say which executable it is."""
    if isinstance(value, dict):
        keys = ("sizes", "schema")
        return {k: v if k in keys else with_numbers(v, number) for k, v in value.items()}
    if isinstance(value, list):
        return [with_numbers(item, number) for item in value]
    return number if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize("number", [-1, 2**63, 10**400], ids=["negative", "wide", "endless"])
def test_endless_evidence_refused(number: int, documents: Documents, stranger: LocalSigner) -> None:
    digest = documents.manifest["evidence"]["digest"]
    told = json.loads(documents.layers[digest])
    swap_layer(documents, digest, canonical_json.encode(with_numbers(told, number)))
    with pytest.raises(BundleFormatError) as caught:
        review(signed(documents, stranger), None, NOW)
    assert caught.value.code == "AOTC-E101"
    assert caught.value.findings[0].where.startswith("evidence of")
