"""A page about a bundle says everything, to everybody, with the same bytes, and asks nobody."""

import base64
import hashlib
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from aotc.base.evidence import ExpectedWithin, ModelOrigin
from aotc.bundle.read.bundle_review import Review, ReviewedTarget, review
from aotc.bundle.trust.trust_state import state_of
from aotc.commands.report_page.page_parts import Facts, Mark, Page, Section, Text
from aotc.commands.report_page.page_renderer import TEXT_MAX, page_of, render
from aotc.report.trust_report import policy_document
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from tests.conftest import Bundle
from tests.pages import Read, read_page

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def bytes_of(bundle: Path, trust: Path | None = None) -> bytes:
    policy = read_policy(trust) if trust else None
    found = review(open_bundle(bundle), policy, datetime.now(UTC))
    rules = policy_document("", state_of(policy, NOW, "policy")) if policy else None
    return render(page_of(found, rules))


def paragraphs(read: Read) -> str:
    return "\n".join(read.texts("p"))


@pytest.fixture(scope="module")
def lm(lm_bundle: Bundle) -> Read:
    return read_page(bytes_of(*lm_bundle))


@pytest.fixture(scope="module")
def lm_review(lm_bundle: Bundle) -> Review:
    return review(open_bundle(lm_bundle[0]), None, NOW)


def test_every_target_entry_point_and_profile_is_there(lm: Read, lm_review: Review) -> None:
    rows = lm.texts("th")
    for executable in lm_review.executables():
        # Size, cost, parity, trials, control flow, placement, operations, plan, instructions.
        assert rows.count(executable.label) == 6, executable.label
    for target in lm_review.targets:
        assert rows.count(target) == 1, "of the toolchain"
    headings = lm.texts("h3")
    facts = dict(zip(lm.texts("dt"), lm.texts("dd"), strict=True))
    for name, entry_point in next(iter(lm_review.targets.values())).manifest.entry_points.items():
        assert headings.count(name) == 1
        profiles = "; ".join(sizes_text(profile.sizes) for profile in entry_point.profiles)
        assert profiles in lm.texts("dd")
        assert {parameter.name for parameter in entry_point.parameters} <= {*rows}
    assert facts["root digest"] == lm_review.root_digest
    assert facts["executables"] == str(len(list(lm_review.executables())))


def test_what_was_built_from_what_is_there(lm: Read, lm_review: Review) -> None:
    (claim,) = (c for c in lm_review.claims if "slsa" in c.predicate_type)
    words = {*lm.texts("td"), *lm.texts("dd"), *lm.texts("th")}
    assert claim.predicate["runDetails"]["builder"]["id"] in words
    assert claim.predicate["runDetails"]["metadata"]["finishedOn"] in words
    for source in claim.predicate["buildDefinition"]["resolvedDependencies"]:
        assert source["name"] in words
    assert {"SLSA provenance"} <= words
    assert any("not in the bundle" in text for text in lm.texts("p"))


def test_program_lines_stand_as_in_provenance(digits_bundle: Bundle) -> None:
    read = review(open_bundle(digits_bundle[0]), read_policy(digits_bundle[1]), NOW)
    coverage = read.targets["cpu-x86-64-v3"].entry_points["predict"].coverage
    assert coverage is not None
    lines = read.lines()["predict"].lines_in("digits/model.py", coverage.files["digits/model.py"])
    source = Path("manifests/digits/model.py").read_text("utf-8").splitlines()
    for function, at in zip(coverage.files["digits/model.py"], lines, strict=True):
        assert at is not None and f"def {function.name}(" in source[at.line - 1]
    assert not any("at which lines" in text for text in paragraphs(page_read(read)).splitlines())


def test_lines_that_nobody_signed_who_counts_are_not_shown(digits_bundle: Bundle) -> None:
    read = review(open_bundle(digits_bundle[0]), read_policy(digits_bundle[1]), NOW)
    assert read.lines()["predict"].functions
    unsigned = replace(read, claims=tuple(replace(claim, counts=()) for claim in read.claims))
    assert not unsigned.lines()
    assert "at which lines" in paragraphs(page_read(unsigned))
    assert replace(unsigned, verified=False).lines()["predict"] == read.lines()["predict"]


def page_read(found: Review) -> Read:
    return read_page(render(page_of(found, None)))


def test_a_page_without_a_policy_says_that_nobody_was_asked(digits_bundle: Bundle) -> None:
    page = read_page(bytes_of(digits_bundle[0]))
    assert "No signature was verified" in paragraphs(page)
    assert {"signatures were not checked", "not checked"} <= {*page.texts("span")}
    assert "accepted by a policy" not in page.texts("span")


def test_a_page_with_a_policy_says_who_counts(digits_bundle: Bundle) -> None:
    policy = read_policy(digits_bundle[1])
    page = read_page(bytes_of(*digits_bundle))
    (key,) = state_of(policy, NOW, "policy").keys
    assert "accepts this bundle: 1 of its 1 key signed, 1 needed" in paragraphs(page)
    assert key.id in page.texts("td")
    assert {"accepted by a policy", "yes, and it counts", "yes"} <= {*page.texts("span")}
    assert "not checked" not in page.texts("span")


def test_same_bundle_gives_same_page(digits_bundle: Bundle, tmp_path: Path) -> None:
    other = tmp_path / "other name.aotb"
    shutil.copy(digits_bundle[0], other)
    policy = tmp_path / "policy.toml"
    shutil.copy(digits_bundle[1], policy)
    assert bytes_of(*digits_bundle) == bytes_of(other, policy)
    assert bytes_of(digits_bundle[0]) == bytes_of(other) != bytes_of(*digits_bundle)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (UNSET, "compared with none of its framework's"),
        (ExpectedWithin("e.npz", "0.001", "0.01"), "gives what e.npz has, within 0.01 + 0.001"),
        (ExpectedWithin("e.npz", "0", "0", ("f[n=8]", "f[n=9]")), "not compared: f[n=8], f[n=9]"),
    ],
)
def test_review_is_told(lm_review: Review, expected: ExpectedWithin | UnsetType, said: str) -> None:
    origin = ModelOrigin("m.pt2", {"torch": "2.13"}, expected=expected)

    def of_model(target: ReviewedTarget) -> ReviewedTarget:
        assert target.evidence is not None
        entry_points = {
            name: msgspec.structs.replace(each, model=origin)
            for name, each in target.evidence.entry_points.items()
        }
        evidence = msgspec.structs.replace(target.evidence, entry_points=entry_points)
        return replace(target, evidence=evidence)

    targets = {name: of_model(target) for name, target in lm_review.targets.items()}
    text = paragraphs(read_page(render(page_of(replace(lm_review, targets=targets), None))))
    assert "made of m.pt2 (torch 2.13)" in text and said in text


def test_a_bundle_without_evidence_says_that_it_has_none(lm_review: Review) -> None:
    targets = {n: ReviewedTarget(t.manifest, None) for n, t in lm_review.targets.items()}
    bare = replace(lm_review, targets=targets, claims=(), envelopes=())
    said = paragraphs(read_page(render(page_of(bare, None))))
    for what in ("what was traced", "evidence of the libraries", "no provenance"):
        assert what in said, what
    assert "it is unsigned" in said


def test_the_page_asks_nobody_and_runs_nothing(lm: Read) -> None:
    (policy,) = (
        e.attributes["content"]
        for e in lm.all("meta")
        if e.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    (style,) = lm.all("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert not re.search(r"url\(|@import|expression", style.text)
    assert not [e for e in lm.elements if e.tag in ("script", "link", "img", "iframe", "form")]
    for element in lm.elements:
        for name, value in element.attributes.items():
            assert not name.startswith("on") and name not in ("src", "style"), name
            assert name != "href" or value.startswith("#"), value


def test_the_page_can_be_read_without_seeing_it(lm: Read) -> None:
    assert lm.declarations == ["doctype html"]
    assert lm.all("html")[0].attributes == {"lang": "en"}
    ids = [e.attributes["id"] for e in lm.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for element in lm.elements:
        for name in ("href", "aria-labelledby"):
            if name in element.attributes:
                assert element.attributes[name].removeprefix("#") in ids
    levels = [int(e.tag[1]) for e in lm.elements if re.fullmatch("h[1-6]", e.tag)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(lm.all("table")) == len(lm.all("caption")) == len(lm.all("thead"))
    assert {th.attributes.get("scope") for th in lm.all("th")} == {"col", "row"}


def test_rows_have_as_many_cells_as_their_table_has_columns(lm: Read) -> None:
    width, cells = 0, 0
    for element in [*lm.elements, lm.all("tr")[0]]:
        if element.tag in ("tr", "table", "caption", "thead"):
            assert cells in (0, width)
            cells = 0
        if element.tag == "table":
            width = 0
        if element.tag in ("th", "td"):
            cells += 1
            if element.attributes.get("scope") == "col":
                width += 1


def one(text: str) -> Page:
    parts = Text(text), Facts(((text, text),))
    return Page(text, text, Mark(text, "plain"), (Section("s", text, parts),))


def test_controls_and_turns_of_the_writing_direction_are_spelled_out() -> None:
    page = read_page(render(one("safe\u202etxt.\x1b[31m\x00\ud800")))
    assert page.texts("h1") == ["safe\\u202etxt.\\x1b[31m\\x00\\ud800"]


def test_a_text_without_end_is_cut_and_counted() -> None:
    page = read_page(render(one("x" * (TEXT_MAX + 1234))))
    assert page.texts("h1") == ["x" * TEXT_MAX + "… and 1,234 characters more"]
