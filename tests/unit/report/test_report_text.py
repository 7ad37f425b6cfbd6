"""Reports for people: whatever a bundle says of itself is shown as text and steers nothing."""

import copy
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.read.bundle_review import review
from aotc.report.inspect_report import bundle_report
from aotc.report.report_text import print_bundle, size, tuned_text
from aotc_runtime.base.rendering import printable
from aotc_runtime.system.bundle_files import open_bundle

NOW = datetime.now(UTC)
ODD = ["[/red]", "[bold]x", "\x1b[2J", "a\nok forged", "\x9b31m", "\udcff", "[link=x]y[/link]"]


@pytest.fixture
def report(digits_bundle: tuple[Path, Path]) -> dict[str, Any]:
    return copy.deepcopy(bundle_report(review(open_bundle(digits_bundle[0]), None, NOW)))


@pytest.mark.parametrize("text", ODD)
def test_a_claimed_key_id_is_shown_as_it_is_spelled(
    report: dict[str, Any], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    report["signatures"] = [{"key_id": text}]
    print_bundle(report)
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if line.startswith("signed")]
    assert printable(text) in line
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("text", ODD)
def test_odd_names_and_versions_print(
    report: dict[str, Any], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (target,) = report["targets"].values()
    target["accepts_jaxlib"] = [text]
    target["weights"] = {text: target["weights"]["params"]}
    entry = target["entry_points"]["predict"]
    entry["parameters"], entry["inputs"], entry["donated"] = [text], {text: text}, [text]
    entry["profiles"][0]["sizes"] = {text: 1}
    target["entry_points"] = {text: entry}
    report["targets"] = {text: target}
    print_bundle(report)
    shown = capsys.readouterr().out
    assert all(line == printable(line) for line in shown.splitlines())
    assert shown.count(printable(text)[:4]) >= 8


def test_pipe_lines_are_whole(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    (target,) = report["targets"].values()
    profiles = target["entry_points"]["predict"]["profiles"]
    names = {f"dimension_{number}": 10**6 for number in range(6)}
    profiles[0] |= {"sizes": names, "parity": profiles[0]["parity"] | {"ulp_max": 1_000_001}}
    print_bundle(report)
    lines = capsys.readouterr().out.splitlines()
    (header,) = [line for line in lines if line.lstrip().startswith("profile")]
    assert header.split()[-1] == "ulp"
    (row,) = [line for line in lines if "dimension_0" in line]
    assert "dimension_5=1000000" in row
    assert row.split()[-1] == ">1e6", "what follows says no more"


def test_on_a_terminal_of_80_columns_two_dimensions_are_not_cut(
    report: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    (target,) = report["targets"].values()
    for profile in target["entry_points"]["predict"]["profiles"]:
        profile["sizes"] = {"batch": 1, "seq": 64}
    print_bundle(report)
    shown = capsys.readouterr().out
    assert "batch=1,seq=64 " in shown


def test_on_a_narrow_terminal_a_profile_stands_above_its_numbers(
    report: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    (target,) = report["targets"].values()
    profiles = target["entry_points"]["predict"]["profiles"]
    for profile in profiles:
        profile["sizes"] = {"batch": 8, "height": 640, "width": 480, "seq": 2048}
    for width in (60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        print_bundle(report)
        lines = re.sub("\x1b\\[[0-9]*m", "", capsys.readouterr().out).splitlines()
        at = lines.index("    batch=8,height=640,seq=2048,width=480")
        assert lines[at + 1].split()[-1] == str(profiles[0]["parity"]["ulp_max"])
        table = lines[at - 1 : at + 2 * len(profiles)]
        assert max(map(len, table)) <= width


def test_loader_arguments_apart(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    (target,) = report["targets"].values()
    entry = target["entry_points"]["predict"]
    entry["parameters"] += ["mask", "rows"]
    entry["inputs"] |= {"mask": "bool[batch]", "rows": "int32[]"}
    pads = {"policy": "pad", "fill": {}, "length": None, "mask": None, "proof": {"trials": 0}}
    entry["policies"] = {
        "a": pads | {"mask": "mask"},
        "b": {
            "policy": "compile",
            "most": 8,
            "seconds": 60,
            "meanwhile": pads | {"length": "rows"},
        },
    }
    print_bundle(report)
    lines = capsys.readouterr().out.splitlines()
    assert "  predict(image)" in lines
    assert "    takes image float32[batch, 64]" in lines
    assert "    added by the loader: mask bool[batch], rows int32[]" in lines


def test_variables_are_shown(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    print_bundle(report)
    assert "variables" not in capsys.readouterr().out
    read = {"SCALE": "set", "EQX_ON_ERROR": "not set", "*": "set", "\x1b[2J": "not set"}
    report["signatures"] = [{"key_id": "k", "variables": read}]
    print_bundle(report)
    lines = capsys.readouterr().out.splitlines()
    assert "read    variables, set: all together, SCALE" in lines
    assert f"asked   variables, not set: {printable('\x1b[2J')}, EQX_ON_ERROR" in lines


def test_unsigned_has_no_signer(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    report["signatures"] = []
    print_bundle(report)
    assert "signed  no\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_250_000, "1.2 MB"), (10**13, "10000.0 GB")],
)
def test_sizes_have_units(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ("eigen", "eigen, 8.0 us, 0.800 of the default's time; best of 2 candidates on znver5"),
        ("default", "default, 10.0 us; none of 2 candidates on znver5 saved 3 %"),
        ("wide", "wide, nothing could be measured"),
    ],
)
def test_a_tuned_executable_says_what_was_chosen_and_why(choice: str, text: str) -> None:
    candidates = [
        {"status": "measured", "name": "default", "p50_us": "10.0", "relative": "1.000"},
        {"status": "measured", "name": "eigen", "p50_us": "8.0", "relative": "0.800"},
        {"status": "left-out", "name": "wide", "reason": "killed by SIGABRT"},
    ]
    tuned = {"choice": choice, "candidates": candidates, "margin": "0.03", "processor": "znver5"}
    assert tuned_text(tuned) == text
