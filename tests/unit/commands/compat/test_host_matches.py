"""Descriptions of hosts, written and read."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from unit.runtime.samples import host

from aotc.base.errors import UsageError
from aotc.commands.compat.host_matches import SIZE_BYTES_MAX, read_hosts
from aotc_runtime.formats.host_facts_json import host_document

FACTS = host(isa=frozenset({"sse2", "avx2", "fma"}))


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), "utf-8")
    return path


def refusals(*paths: Path) -> list[tuple[str, str]]:
    with pytest.raises(UsageError) as error:
        read_hosts(paths)
    return [(finding.code, finding.where) for finding in error.value.findings]


def test_what_is_written_is_what_is_read_under_the_name_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "web7.json", host_document(FACTS))
    other = written(tmp_path / "web8.json", {"ok": True, **host_document(FACTS), "findings": []})
    assert read_hosts([path, other]) == {"web7": FACTS, "web8": FACTS}


def test_the_same_facts_give_the_same_bytes() -> None:
    features = [f"feature{index}" for index in range(20)]
    documents = [
        host_document(host(isa=frozenset(order))) for order in (features, reversed(features))
    ]
    assert json.dumps(documents[0]) == json.dumps(documents[1])
    assert documents[0]["facts"]["isa"] == sorted(features)


def test_every_fact_is_in_the_document() -> None:
    document = host_document(FACTS)
    assert set(document["facts"]) == set(type(FACTS).__struct_fields__)
    assert (document["kind"], document["schema"]) == ("aotc-host", 1)


def test_a_fact_that_this_version_does_not_know_is_passed_over(tmp_path: Path) -> None:
    document = host_document(FACTS)
    document["facts"]["phase_of_the_moon"] = "full"
    assert read_hosts([written(tmp_path / "a.json", document)]) == {"a": FACTS}


BAD: dict[str, Any] = {
    "another schema": {**host_document(FACTS), "schema": 2},
    "another kind": {**host_document(FACTS), "kind": "something"},
    "no kind": {"facts": msgspec.to_builtins(FACTS)},
    "a fact missing": {**host_document(FACTS), "facts": {"platform": "cpu"}},
    "a fact of another type": {
        **host_document(FACTS),
        "facts": {**host_document(FACTS)["facts"], "devices": "one"},
    },
    "a list": [host_document(FACTS)],
}


@pytest.mark.parametrize("document", BAD.values(), ids=BAD.keys())
def test_what_is_no_description_of_a_host_is_refused(tmp_path: Path, document: Any) -> None:
    path = written(tmp_path / "a.json", document)
    assert refusals(path) == [("AOTC-E053", str(path))]


def test_every_bad_file_is_told_at_once(tmp_path: Path) -> None:
    good = written(tmp_path / "a.json", host_document(FACTS))
    (tmp_path / "b").mkdir()
    double = written(tmp_path / "b" / "a.json", host_document(FACTS))
    (tmp_path / "no.json").write_bytes(b"\xff{")
    bad = [tmp_path / "gone.json", tmp_path / "no.json", tmp_path / "b", double]
    assert refusals(good, *bad) == [("AOTC-E053", str(path)) for path in bad]


def test_a_description_may_be_as_large_as_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(host_document(FACTS)).ljust(SIZE_BYTES_MAX), "utf-8")
    assert list(read_hosts([path])) == ["a"]
