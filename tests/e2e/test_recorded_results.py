"""Results that were recorded where the program runs stand in for those of plain JAX, and every
report says so.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from small_programs import build_trusted

import aotc_runtime
from aotc.base.errors import ParityError
from aotc.bundle.read.bundle_review import review
from aotc.commands.report_page.page_renderer import page_of, render
from aotc.pipeline.build import Built
from aotc.report.inspect_report import bundle_report
from aotc.report.report_text import print_bundle
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import Once, manifest_of
from tests.pages import read_page

PROGRAM = """
def f(x):
    return {"twice": x * 2, "sum": x.sum()}

def g(x):
    return x + 1
"""

MANIFEST = manifest_of("""
name = "recorded"
dimensions.n = { range = [2, 4], profiles = [2, 4] }

[entry_points.f]
function = "program:f"
inputs.x = { shape = ["n"], dtype = "float32" }
fixtures = { file = "inputs.npz", results = "results.npz" }

[entry_points.g]
function = "program:g"
inputs.x = { shape = [2], dtype = "float32" }
""")

X = np.asarray([1, 2, 3, 4], np.float32)


def built(folder: Path, off_by: float = 0.0) -> Built:
    """A build with results that are wrong by a number."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "program.toml").write_text(MANIFEST)
    np.savez(folder / "inputs.npz", x=X)
    results = {
        f"{name}[n={n}]": value
        for n in (2, 4)
        for name, value in (("twice", X[:n] * 2 + np.float32(off_by)), ("sum", X[:n].sum()))
    }
    np.savez(folder / "results.npz", **results)
    return build_trusted(folder / "program.toml", folder / "recorded.aotb")


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    def fill(folder: Path) -> None:
        notes = built(folder).notes
        assert [note for note in notes if "recorded elsewhere" in note] == [
            "the results that f is compared with were recorded elsewhere: plain JAX did not run it "
            "in this build"
        ]

    return once("recorded-results", fill)


def test_the_fixtures_hold_what_was_recorded_and_the_bundle_is_ready_by_them(folder: Path) -> None:
    bundle = aotc_runtime.load(folder / "recorded.aotb", trust=folder / "trust.toml")
    assert [each["label"] for each in bundle.report()["fixtures"]] == ["f[n=2]", "f[n=4]", "g"]
    assert bundle["f"](X[:2])["twice"].tolist() == [2, 4]


def test_inspect_names_entry_points(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = bundle_report(review(open_bundle(folder / "recorded.aotb"), None, datetime.now(UTC)))
    entry_points = report["targets"]["cpu-x86-64-v3"]["entry_points"]
    assert entry_points["f"]["reference"] == "recorded"
    assert "reference" not in entry_points["g"]
    print_bundle(report)
    assert capsys.readouterr().out.count("max err is against results recorded elsewhere") == 1


def test_the_page_for_reviewers_says_so_too(folder: Path) -> None:
    now = datetime.now(UTC)
    found = review(open_bundle(folder / "recorded.aotb"), None, now)
    page = read_page(render(page_of(found, None)))
    (told,) = (text for text in page.texts("p") if "recorded elsewhere" in text)
    assert told.endswith(": f.")


def test_results_that_are_not_the_executables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParityError) as caught:
        built(tmp_path, off_by=0.5)
    assert {finding.code for finding in caught.value.findings} == {"AOTC-E951"}
    assert "output twice" in caught.value.findings[0].where
