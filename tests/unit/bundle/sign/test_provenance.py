"""Provenance: valid by SLSA's own schema, and all that a build was made from."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2

from aotc.pipeline.code_identity import code_digests
from aotc_runtime.formats import in_toto as formats
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified


@pytest.fixture(scope="module")
def statements(digits_bundle: tuple[Path, Path]) -> dict[str, dict[str, Any]]:
    """Return what `aotc build --key` signed, by predicate type."""
    _, envelopes = read_unverified(open_bundle(digits_bundle[0]))
    found = [json.loads(base64.b64decode(json.loads(each)["payload"])) for each in envelopes]
    return {each["predicateType"]: each for each in found}


def test_provenance_is_valid_by_the_schema_of_slsa(statements: dict[str, dict[str, Any]]) -> None:
    """https://slsa.dev/spec/v1.0/provenance as protobuf, which knows every field and its type."""
    predicate = statements[formats.PROVENANCE_TYPE]["predicate"]
    json_format.ParseDict(predicate, provenance_pb2.Provenance())
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict({**predicate, "built": 1}, provenance_pb2.Provenance())


def test_statements_are_valid_by_in_toto_schema(statements: dict[str, dict[str, Any]]) -> None:
    assert set(statements) == {formats.PROVENANCE_TYPE, formats.SBOM_TYPE}
    for statement in statements.values():
        json_format.ParseDict(statement, statement_pb2.Statement())


def test_weights_stand_beside_the_sources(statements: dict[str, dict[str, Any]]) -> None:
    definition = statements[formats.PROVENANCE_TYPE]["predicate"]["buildDefinition"]
    files = {each["name"] for each in definition["resolvedDependencies"] if "uri" not in each}
    assert {"digits/model.py", "digits/params.safetensors", "digits/fixtures.npz"} <= files
    assert definition["internalParameters"]["python"].startswith("CPython 3.")


def test_own_packages_have_code_digests(statements: dict[str, dict[str, Any]]) -> None:
    definition = statements[formats.PROVENANCE_TYPE]["predicate"]["buildDefinition"]
    stated = {
        each["name"]: each["annotations"]["code"]
        for each in definition["resolvedDependencies"]
        if "code" in each.get("annotations", {})
    }
    assert stated == code_digests()
