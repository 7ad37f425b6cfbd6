"""`aotc compat`: a fleet described, and asked before anything is deployed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.commands.compat.compat_text import WIDTH
from aotc_runtime.loader.verify_report import host_report
from tests.conftest import Bundle, Run

BUILT = "cpu-x86-64-v3"


@pytest.fixture
def facts() -> dict[str, Any]:
    """This host as it describes itself."""
    return host_report().document


@pytest.fixture
def describe(facts: dict[str, Any], tmp_path: Path) -> Callable[..., str]:
    """Write the description of another host. lacks: beginnings of features' names."""

    def write(name: str, lacks: tuple[str, ...] = (), **change: Any) -> str:
        isa = [f for f in facts["facts"]["isa"] if not f.startswith(lacks or "-")]
        document = {**facts, "facts": {**facts["facts"], "isa": isa, **change}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        return f"{name}.json"

    return write


def test_this_host_is_asked_without_descriptions(aotc: Run, digits_bundle: Bundle) -> None:
    document = aotc("compat", digits_bundle[0], "--json").document
    (row,) = document["hosts"]
    assert (document["ok"], document["without_target"]) == (True, [])
    assert (row["host"], row["runs"]) == ("this host", BUILT)
    (cell,) = row["targets"]
    assert cell["level"] == "usable"
    assert cell["evidence"]["built_with"] == row["jaxlib"]


def test_fleet_needs_target(aotc: Run, digits_bundle: Bundle, describe: Callable[..., str]) -> None:
    hosts = [describe("web1"), describe("web2", lacks=("avx512",)), describe("old", lacks=("avx",))]
    done = aotc("compat", digits_bundle[0], "--hosts", *hosts, "--json")
    assert (done.exit_code, done.stderr) == (7, "")
    document = done.document
    assert {row["host"]: row["runs"] for row in document["hosts"]} == {
        "web1": BUILT,
        "web2": BUILT,
        "old": None,
    }
    assert document["without_target"] == ["old"]
    (finding,) = document["findings"]
    assert finding["code"] == "AOTC-E961" and finding["where"].startswith("old ")
    (cell,) = document["hosts"][2]["targets"]
    assert "avx2" in cell["evidence"]["missing_features"]
    text = aotc("compat", digits_bundle[0], "--hosts", *hosts)
    assert (text.exit_code, text.codes) == (7, ["AOTC-E961"])
    assert "2 of 3 hosts can run this bundle" in text.stdout


def test_hosts_as_words(aotc: Run, digits_bundle: Bundle, describe: Callable[..., str]) -> None:
    one, two = describe("one"), describe("two")
    for arguments in (["--hosts", one, two], ["--hosts", one, "--hosts", two], [one, two]):
        document = aotc("compat", digits_bundle[0], *arguments, "--json").document
        assert [row["host"] for row in document["hosts"]] == ["one", "two"]


def test_unproven_fails(aotc: Run, digits_bundle: Bundle, describe: Callable[..., str]) -> None:
    own = json.loads(Path(describe("web1")).read_text("utf-8"))["facts"]["jaxlib"]
    done = aotc(
        "compat", digits_bundle[0], "web1.json", "--jaxlib", own, "--jaxlib", "9.9", "--json"
    )
    assert done.exit_code == 7
    rows = done.document["hosts"]
    assert [(row["jaxlib"], row["runs"]) for row in rows] == [(own, BUILT), ("9.9", None)]
    assert rows[1]["level"] == "unknown"
    (finding,) = done.document["findings"]
    assert "9.9" in finding["where"] and own in finding["hint"]


def test_a_host_that_needs_another_target_is_told_which(
    aotc: Run, digits_bundle: Bundle, describe: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "tiny.toml").write_text(
        'schema = 1\nname = "tiny"\nplatform = "cpu"\ntriple = "x86_64-unknown-linux-gnu"\n'
        'cpu = "x86-64"\nfeatures = ["sse2"]\nthreads = 1\n'
    )
    done = aotc("compat", digits_bundle[0], describe("old", lacks=("crc32",)), "--json")
    assert "tiny" in done.document["hosts"][0]["build_for"]
    assert "would run" in aotc("compat", digits_bundle[0], "old.json").stdout


def test_equal_hosts_merge(aotc: Run, digits_bundle: Bundle, describe: Callable[..., str]) -> None:
    hosts = [describe(f"machine-{index}-in-the-first-rack") for index in range(20)]
    hosts.append(describe("old", lacks=("avx", "sse4", "bmi")))
    done = aotc("compat", digits_bundle[0], *hosts)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "… 12 more" in done.stdout and "machine-8" not in done.stdout


def test_bad_descriptions_are_refused(
    refused: Run, digits_bundle: Bundle, describe: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text("{}")
    refused(["compat", str(digits_bundle[0]), "--hosts", "bad.json"], 2, "AOTC-E053")
    refused(["compat", describe("web1"), str(digits_bundle[0])], 5, "AOTC-E103")


def test_a_slip_in_a_version_is_no_unknown_jaxlib(aotc: Run, digits_bundle: Bundle) -> None:
    for value in ("", "x", "0.12.0\n", "0,12"):
        assert aotc("compat", digits_bundle[0], "--jaxlib", value).exit_code == 2


def test_broken_target_file_is_passed_by(aotc: Run, digits_bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "broken.toml").write_text("schema = 2\n")
    assert aotc("compat", digits_bundle[0]).exit_code == 0
