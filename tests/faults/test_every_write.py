"""Killed, interrupted, without room or not allowed to write, at every call that does: there is the
old result or the new one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.memory_files import folder_in_memory
from tests.waiting import started

FILES = (
    *("sign a file", "build over a file", "build a new file", "build a new file from files"),
    *("build two files", "keygen", "trust init", "trust add-key", "trust revoke"),
    *("publish in a channel", "merge", "extract"),
)
FOLDERS = (
    "sign a folder",
    "build over a folder",
    "build a new folder",
    "build a folder beside one",
)
IN_TWO_STEPS = "sign a folder where names cannot be exchanged"

KILLED = [*FILES, "write arrays", *FOLDERS, IN_TWO_STEPS]
REFUSED = [*FILES, "write arrays", "sign a folder", IN_TWO_STEPS]

ONE_OF_TWO = {"keygen": "a private key", "build two files": "a bill"}
"""What may be there alone."""

NEW = (
    *("build a new file", "build a new file from files", "build a new folder"),
    *("build a folder beside one", "trust init", "merge", "extract"),
)
"""What none was before."""

STRIDE = 1 if os.environ.get("AOTC_FAULTS") == "all" else 6
"""In folders, the same five calls are made for each file."""


type Outcomes = Callable[[str, str], list[dict[str, Any]]]
"""Of an operation's name and a fault: a record for each call that was hit."""


@pytest.fixture(scope="module")
def outcomes(
    digits_bundle: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcomes]:
    """All are asked of one process, which imports the toolchain once and forks for each."""
    # What is asked here is not whether the disk syncs.
    otherwise = tmp_path_factory.mktemp("sweeps")
    command = [sys.executable, "-m", "tests.faults.sweep", str(digits_bundle[0])]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sweeper:
        assert sweeper.stdin and sweeper.stdout
        asked, answered = sweeper.stdin, sweeper.stdout

        def records(name: str, fault: str) -> list[dict[str, Any]]:
            stride = STRIDE if "folder" in name else 1
            with folder_in_memory(otherwise) as folder:
                asked.write(json.dumps([name, fault, folder, stride]) + "\n")
                asked.flush()
                code = answered.readline()
                errors = Path(folder, "errors").read_text("utf-8")
                assert (code, errors) == ("0\n", ""), errors
                records_file = Path(folder, "records.json")
                found: list[dict[str, Any]] = json.loads(records_file.read_bytes())
            assert len(found) >= 5 and all(record["call"] for record in found)
            return found

        yield records
        asked.close()


def states_of(name: str) -> set[str]:
    # Two names cannot appear in one step; a key without its public half is whole, and a bill of
    # materials is of use without its bundle.
    if name in ONE_OF_TWO:
        return {"none", "new", ONE_OF_TWO[name]}
    return {"none", "new"} if name in NEW else {"old", "new"}


def ends_well_when_run_again(name: str, record: dict[str, Any]) -> None:
    assert record["left"] == [], record
    done = {"keygen": {"a private key", "new"}, "trust init": {"new"}, "trust add-key": {"new"}}
    if record["state"] in done.get(name, ()):
        # What exists is not overwritten, and a key is not added twice.
        assert (record["again"], record["then"]) == (2, record["state"]), record
    else:
        assert (record["again"], record["then"]) == (0, "new"), record


@pytest.mark.parametrize("name", KILLED)
def test_kill_leaves_old_or_new_and_next_run_tidies_up(name: str, outcomes: Outcomes) -> None:
    records = outcomes(name, "KILL")
    allowed = states_of(name) | ({"aside"} if name == IN_TWO_STEPS else set())
    for record in records:
        assert record["code"] == -9
        assert record["state"] in allowed and record["strange"] == [], record
        ends_well_when_run_again(name, record)
    assert {record["state"] for record in records} == allowed, "each was met"
    assert any(record["litter"] for record in records)


@pytest.mark.parametrize("name", REFUSED)
def test_ctrl_c_leaves_old_or_new_and_nothing_else(name: str, outcomes: Outcomes) -> None:
    for record in outcomes(name, "INTERRUPT"):
        assert (record["code"], record["litter"]) == (130, []), record
        assert record["state"] in states_of(name) - {*ONE_OF_TWO.values()}, record


@pytest.mark.parametrize("name", REFUSED)
def test_full_disk_is_an_error_and_leaves_the_old_result(name: str, outcomes: Outcomes) -> None:
    """Calls that tidy up may fail without harm, and the last one only makes the rename last."""
    records = outcomes(name, "FULL")
    for record in records:
        assert record["code"] in (0, 2) and record["litter"] == [], record
        assert record["state"] in states_of(name) - {"a private key"}, record
        assert record["said"] == ("AOTC-E003" if record["code"] else ""), record
        if record["code"] == 0:
            assert record["state"] == "new", record
    assert sum(record["code"] == 2 for record in records) > 3


@pytest.mark.parametrize("name", REFUSED)
def test_read_only_place_is_an_error_and_nothing_is_half(name: str, outcomes: Outcomes) -> None:
    """A file that cannot be removed has a temporary name, and the next run removes it."""
    first, *later = outcomes(name, "READ_ONLY")
    assert (first["code"], first["said"], first["litter"]) == (2, "AOTC-E003", []), first
    assert first["state"] == ("old" if "old" in states_of(name) else "none"), first
    allowed = states_of(name) | ({"aside"} if name == IN_TWO_STEPS else set())
    for record in later:
        assert record["code"] in (0, 2) and record["strange"] == [], record
        assert record["said"] == ("AOTC-E003" if record["code"] else ""), record
        assert record["state"] in allowed, record
        ends_well_when_run_again(name, record)
