"""Tests of recipes from provenance statements about exactly one build."""

import json
from typing import Any

import pytest

from aotc.base.errors import ReproducibilityError
from aotc.commands.reproduce.build_recipe import Recipe, Revision, recipe_of
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.slsa_provenance import BUILD_TYPE, MERGE_TYPE
from tests.refusals import error_of

COMMIT = "0123456789" * 4


def predicate(build_type: str = BUILD_TYPE, **internal: Any) -> bytes:
    build = {
        "buildType": build_type,
        "externalParameters": {"manifest": {"name": "app.toml", "digest": {"sha256": "0" * 64}}},
        "internalParameters": internal,
        "resolvedDependencies": [
            {"name": "app.py", "digest": {"sha256": "1" * 64}},
            {"uri": "pkg:pypi/numpy@2.4.0"},
            {"uri": "https://example.com", "digest": {"sha256": "2" * 64}},
        ],
    }
    return json.dumps({"buildDefinition": build}).encode()


def test_a_recipe_is_what_a_build_says_of_itself() -> None:
    revision = {"gitCommit": COMMIT, "dirty": True}
    read = {"SCALE": "set", "LEFT_OUT": "not set"}
    told = predicate(
        requested_targets=["native"], python="CPython 3.13.1", revision=revision, variables=read
    )
    assert recipe_of([told, told], ("key",), "x") == Recipe(
        "app.toml",
        "sha256:" + "0" * 64,
        ("native",),
        {"app.py": "sha256:" + "1" * 64},
        {"numpy": "2.4.0"},
        {},
        "CPython 3.13.1",
        Revision(COMMIT, True),
        "",
        {"LEFT_OUT": False, "SCALE": True},
        ("key",),
    )


def test_a_build_outside_of_a_repository_has_no_revision() -> None:
    assert recipe_of([predicate()], (), "x").revision is None


@pytest.mark.parametrize(
    ("predicates", "found"),
    [
        ([], "none; it is unsigned"),
        ([predicate(MERGE_TYPE)], f"none; {MERGE_TYPE}"),
        ([predicate(), predicate(python="CPython 3.12.0")], "2 of them"),
    ],
)
def test_statements_of_no_single_build_are_no_recipe(predicates: list[bytes], found: str) -> None:
    caught = error_of(ReproducibilityError, recipe_of, predicates, (), "x")
    assert (caught.code, caught.findings[0].found) == ("AOTC-E941", found)


@pytest.mark.parametrize("name", ["\x1b[2J", "A\n", "A" * 201])
def test_a_variable_of_a_name_that_no_build_records_is_refused(name: str) -> None:
    with pytest.raises(ReproducibilityError) as caught:
        recipe_of([predicate(variables={name: "set"})], (), "x")
    assert (caught.value.code, caught.value.findings[0].expected) == (
        "AOTC-E945",
        "the name of a variable",
    )


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[" * 100_000, b'{"buildDefinition": 1}'])
def test_what_is_no_provenance_is_none(data: bytes) -> None:
    assert error_of(AotcError, recipe_of, [data], (), "x").code == "AOTC-E106"
