"""`aotc targets`: the machines that can be named, and what they are."""

from importlib.metadata import version
from pathlib import Path

from aotc.compile.cpu import cpu_isa
from tests.conftest import Run

ROOT = Path(__file__).parents[3]


def test_the_built_in_targets_are_listed_with_native(aotc: Run) -> None:
    listed = aotc("targets", "list", "--json").document["targets"]
    assert {"cpu-x86-64-v3", "cpu-x86-64-v4"} <= {target["name"] for target in listed}
    assert all(Path(target["path"]).is_file() for target in listed)
    checked = {target["name"]: target["platform_checked"] for target in listed}
    assert (checked["cpu-x86-64-v3"], checked["nvidia-h100"]) == ("run", "run on H100")
    names = [line.split()[0] for line in aotc("targets", "list").stdout.splitlines()]
    assert names == [*(target["name"] for target in listed), "native"]


def test_a_target_is_shown_by_name_and_by_path(aotc: Run) -> None:
    by_name = aotc("targets", "show", "cpu-x86-64-v4", "--json").document["target"]
    path = ROOT / "targets" / "cpu-x86-64-v4.toml"
    assert aotc("targets", "show", path, "--json").document["target"] == by_name
    assert "avx512f" in by_name["features"]
    lines = aotc("targets", "show", "cpu-x86-64-v4").stdout.splitlines()
    assert f"features   {' '.join(by_name['features'])}" in lines, "a pipe wraps no line"


def test_an_unknown_target_is_refused_with_those_there_are(refused: Run) -> None:
    refused(["targets", "show", "/dev/null/x.toml"], 3, "AOTC-E811")
    assert "cpu-x86-64-v3" in refused(["targets", "show", "nope"], 3, "AOTC-E811").stderr
    for command in ("show", "check"):
        done = refused(["targets", command, "cpu-x86-64-3"], 3, "AOTC-E811")
        assert f"--> aotc targets {command}\n" in done.stderr
        assert "did you mean `cpu-x86-64-v3`?" in done.stderr


def test_this_host_is_described_and_runs_what_it_can(aotc: Run) -> None:
    document = aotc("targets", "detect", "--json").document
    features = set(document["host"]["features"])
    for target in aotc("targets", "list", "--json").document["targets"]:
        shown = aotc("targets", "show", target["name"], "--json").document["target"]
        runs = shown["platform"] == "cpu" and set(shown["features"]) <= features
        assert (target["name"] in document["runs"]) == runs
    assert document["host"]["threads"] >= 1
    assert not features & {"prefer-no-gather"}


def test_a_target_that_this_machine_can_compile_for_is_checked_by_compiling(aotc: Run) -> None:
    done = aotc("targets", "check", "cpu-x86-64-v4", "--json")
    document = done.document
    assert (done.exit_code, document["ok"], document["compiles_here"]) == (0, True, True)
    assert "avx512f" in document["requires"] and document["compile_seconds"] > 0
    assert document["jaxlib"] == version("jaxlib") and document["notes"] == []


def test_what_this_host_can_run_is_what_the_loader_would_say(aotc: Run, tmp_path: Path) -> None:
    native = aotc("targets", "check", "native", "--json").document
    assert (native["runs_here"], native["host_findings"]) == (True, [])
    text = (ROOT / "targets" / "cpu-x86-64-v3.toml").read_text()
    (tmp_path / "wide.toml").write_text(text.replace('"64bit", ', '"64bit", "amx-fp8", "xop", '))
    document = aotc("targets", "check", "wide.toml", "--json").document
    assert (document["ok"], document["compiles_here"], document["runs_here"]) == (True, True, False)
    (finding,) = document["host_findings"]
    assert finding["code"] == "AOTC-E502" and "amx-fp8" in finding["expected"]
    shown = aotc("targets", "check", "wide.toml")
    assert shown.exit_code == 0 and "AOTC-E502" in shown.stdout and "amx-fp8" in shown.stdout


def test_a_target_below_what_jaxlib_needs_is_told_so(aotc: Run) -> None:
    (first, *rest) = aotc("targets", "check", "cpu-x86-64-v2", "--json").document["notes"]
    assert "avx" in first and version("jaxlib") in first
    if not version("jaxlib").startswith("0.11"):
        (second,) = rest
        assert "built with jaxlib 0.11 it needs only avx beside" in second


def test_uncompilable_target_is_refused(refused: Run, aotc: Run, tmp_path: Path) -> None:
    text = (ROOT / "targets" / "cpu-x86-64-v3.toml").read_text()
    (tmp_path / "odd.toml").write_text(text + 'options = { xla_no_such_option = "1" }\n')
    done = refused(["targets", "check", "odd.toml"], 4, "AOTC-E908")
    assert "xla_no_such_option" in done.stderr
    document = aotc("targets", "check", "odd.toml", "--json").document
    assert (document["compiles_here"], document["requires"]) == (False, [])
    refused(["targets", "check", "nope"], 3, "AOTC-E811")


def test_host_is_written_as_target_file(aotc: Run, refused: Run, tmp_path: Path) -> None:
    host = aotc("targets", "detect", "--json").document["host"]
    (tmp_path / "targets").mkdir()
    file = aotc("targets", "detect", "--toml", "web")
    (tmp_path / "targets" / "web.toml").write_text(file.stdout)
    shown = aotc("targets", "show", "web", "--json").document["target"]
    assert set(shown["features"]) == set(host["features"]) - cpu_isa.UNUSED
    for key in ("cpu", "triple", "tuning", "threads"):
        assert shown[key] == host[key]


def test_targets_are_listed_by_their_names(aotc: Run, tmp_path: Path) -> None:
    text = (ROOT / "targets" / "cpu-x86-64-v3.toml").read_text()
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "web.toml").write_text(text)
    listed = aotc("targets", "list", "--json").document["targets"]
    assert [t["name"] for t in listed if t["path"].startswith(str(tmp_path))] == ["web"]
    assert aotc("targets", "show", "web").exit_code == 0
    detected = aotc("targets", "detect", "--json").document["runs"]
    assert ("web" in detected) == ("cpu-x86-64-v3" in detected)
    assert len(detected) == len(set(detected))


def test_the_other_targets_are_listed_beside_a_broken_file(aotc: Run, tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "broken.toml").write_text("schema = 2\n")
    done = aotc("targets", "list", "--json")
    assert (done.exit_code, done.document["findings"][0]["code"]) == (3, "AOTC-E810")
    assert "cpu-x86-64-v3" in {target["name"] for target in done.document["targets"]}
    done = aotc("targets", "list")
    assert done.exit_code == 3 and done.codes == ["AOTC-E810"]
    assert "cpu-x86-64-v3 " in done.stdout
    assert aotc("targets", "detect").exit_code == 0


def test_a_description_moves_no_cursor(aotc: Run, tmp_path: Path) -> None:
    text = (ROOT / "targets" / "cpu-x86-64-v3.toml").read_text()
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "web.toml").write_text(
        text.replace('description = "', 'description = "\\u001b[31m\\n', 1)
    )
    lines = aotc("targets", "list").stdout.splitlines()
    assert "\\x1b[31m" in next(line for line in lines if line.startswith("web "))
