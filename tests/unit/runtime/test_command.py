"""`python -m aotc_runtime verify` is `aotc verify`, and needs nothing but the runtime."""

import json
import subprocess
from pathlib import Path

import pytest
from unit.cli.conftest import Aotc

from aotc_runtime.__main__ import main
from tests.conftest import Bundle
from tests.running import python

BLOCKED = """
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aotc", "jax", "click", "rich", "pydantic"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
runpy.run_module("aotc_runtime", run_name="__main__", alter_sys=True)
"""


def run(command: list[str], arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return python(*command, *arguments)


CASES: dict[str, tuple[list[str], int]] = {
    "good": ([], 0),
    "a named target": (["--target", "cpu-x86-64-v3"], 0),
    "no such target": (["--target", "nope"], 7),
    "no such policy": (["--trust", "gone"], 5),
    "somebody else's policy": (["--trust", "{other}"], 5),
}


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(("changes", "exit_code"), CASES.values(), ids=CASES.keys())
def test_it_prints_what_aotc_verify_prints_where_only_the_runtime_is_installed(
    aotc: Aotc,
    digits_bundle: Bundle,
    train_bundle: Bundle,
    changes: list[str],
    exit_code: int,
    options: list[str],
) -> None:
    changes = [change.format(other=train_bundle[1]) for change in changes]
    arguments = ["verify", str(digits_bundle[0]), "--trust", str(digits_bundle[1])]
    arguments += [*changes, *options]
    ours = run(["-c", BLOCKED], arguments)
    theirs = aotc(*arguments)
    assert ours.returncode == theirs.exit_code == exit_code
    assert ours.stderr == theirs.stderr
    if options:
        mine, other = json.loads(ours.stdout), json.loads(theirs.stdout)
        for document in (mine, other):
            document.get("host", {}).pop("memory_bytes", None)
        assert list(mine.items()) == list(other.items())
    else:
        assert ours.stdout == theirs.stdout


def test_a_bundle_whose_name_is_no_utf8_is_refused_in_json(tmp_path: Path) -> None:
    done = run(["-m", "aotc_runtime"], ["verify", "gone-\udcff", "--trust", "t", "--json"])
    assert done.returncode == 5
    assert json.loads(done.stdout)["ok"] is False


@pytest.mark.parametrize(
    "arguments",
    [[], ["verify"], ["verify", "b"], ["verify", "b", "--trust", "t", "--bogus"], ["x"]],
)
def test_misuse_is_text_or_json(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 2
    text = capsys.readouterr()
    assert text.out == "" and text.err.startswith("error: ")
    assert main([*arguments, "--json"]) == 2
    as_json = capsys.readouterr()
    assert as_json.err == ""
    assert json.loads(as_json.out)["findings"][0]["code"] == "AOTC-E001"


def test_host_info_is_json_either_way() -> None:
    done = [run(["-c", BLOCKED], ["host-info", *options]) for options in ([], ["--json"])]
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 2
    plain, other = (json.loads(each.stdout) for each in done)
    assert other.pop("ok") is True and other.pop("findings") == []
    for document in (plain, other):
        del document["facts"]["memory_bytes"]
    assert plain == other
    isa = plain["facts"]["isa"]
    assert "avx2" in isa and isa == sorted(isa) and plain["facts"]["jaxlib"]
