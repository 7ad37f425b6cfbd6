"""Command lines that make no sense, and errors that are nobody's fault but ours."""

import os
import resource
import shlex

import click
import pytest

from aotc.cli.command_group import COMMANDS, _startup_problem, cli
from aotc.cli.command_registry import MORE, SECTIONS
from aotc_runtime.loader import bundle_sources
from tests.conftest import Run

# Command lines, with the command that tells how it is used, and what is found.
MISUSED = [
    ("nonsense", "aotc", "nonsense"),
    ("buld x", "aotc", "did you mean 'build'?"),
    ("build", "aotc build", "MANIFEST"),
    ("verify --trust t", "aotc verify", "BUNDLE"),
    ("verify b", "aotc verify", "--trust"),
    ("inspect b --bogus", "aotc inspect", "--bogus"),
    ("inspect b c", "aotc inspect", "c"),
    ("build m --jobs 0", "aotc build", "--jobs"),
    ("build m -o a --layout b", "aotc build", "--layout"),
    ("build m --tune --tuning t.json", "aotc build", "exclude each other"),
    ("build m --save-tuning t.json", "aotc build", "goes with --tune"),
    ("build m --key ''", "aotc build", "--key with an empty value"),
    ("build m --target native --target ''", "aotc build", "--target with an empty value"),
    ("cache clear --cache=", "aotc cache clear", "--cache with an empty"),
    ("init m:f --name ''", "aotc init", "--name with an empty value"),
    ("run b e --trust t --rtol=-1", "aotc run", "finite number of at least 0"),
    ("run b e --trust t --atol=nan", "aotc run", "finite number of at least 0"),
    ("keygen k --plain --passphrase-file p", "aotc keygen", "exclude each other"),
    ("keygen k --plain --type rsa", "aotc keygen", "rsa"),
    ("targets bogus", "aotc targets", "bogus"),
    ("targets detect --toml 'no name'", "aotc targets detect", "a target's name has"),
    ("trust init --key k --name n --threshold 0", "aotc trust init", "--threshold"),
    *(
        (f"trust init --key k --name {name}", "aotc trust init", "neither a bundle name nor a glob")
        for name in ("'two words'", "'a\"b'", "'a\nb'", "é", "\udcff", "x" * 129)
    ),
    *(
        (f"trust add-key p --key k {options}", "aotc trust add-key", found)
        for options, found in (
            ("--certifier --holder ci", "are not for certifiers"),
            ("--certifier --builder x", "are not for certifiers"),
            ("--certifier --endorses-only", "are not for certifiers"),
            ("--builder x --endorses-only", "not both"),
            ("--not-after 2027-01-01T00:00:00", "has no offset from UTC"),
            ("--not-after tomorrow", "no time"),
            ("--not-before 2026-13-01", "no time"),
            *(
                (f"{option} '\udcff'", "is not UTF-8")
                for option in ("--name", "--holder", "--builder")
            ),
        )
    ),
    ("trust init --key k --name n --holder '\udcff'", "aotc trust init", "is not UTF-8"),
    ("trust revoke p", "aotc trust revoke", "name what to revoke"),
    ("trust revoke p --blob x --since 2027-01-01", "aotc trust revoke", "--since says when"),
    ("trust revoke p --key k --since soon", "aotc trust revoke", "no time"),
]


@pytest.mark.parametrize(("line", "where", "found"), MISUSED)
def test_misuse_shows_usage(refused: Run, aotc: Run, line: str, where: str, found: str) -> None:
    arguments = shlex.split(line)
    refused(arguments, 2, "AOTC-E001")
    (finding,) = aotc(*arguments, "--json").document["findings"]
    assert finding["where"] == where
    assert found in finding["found"]
    assert finding["expected"].startswith(where)
    assert f"{where} --help" in finding["hint"]


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        (["--json", "verify", "b"], "aotc COMMAND ... --json"),
        (["-v", "verify", "b"], "aotc COMMAND ... -v"),
        (["targets", "--json", "list"], "aotc targets COMMAND ... --json"),
        (["build", "m", "--precision", "x"], "`[precision.NAME]` in the manifest (docs/guides/"),
        (["build", "m", "--sign", "x"], "sign with `--key FILE`"),
    ],
)
def test_misplaced_option_is_sent_where_it_is_read(
    aotc: Run, arguments: list[str], form: str
) -> None:
    done = aotc(*arguments)
    told = done.stdout + done.stderr
    assert done.exit_code == 2
    assert form in told and "--version" not in told


@pytest.mark.parametrize(
    ("arguments", "command"), [([], "build"), (["targets"], "detect"), (["trust"], "revoke")]
)
def test_a_group_alone_shows_its_help(aotc: Run, arguments: list[str], command: str) -> None:
    done = aotc(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"\n  {command} " in done.stderr


@pytest.mark.parametrize(
    "arguments", [["-h"], ["--help"], ["--version"], ["targets", "-h"], ["trust", "-h"]]
)
def test_help_and_version_succeed(aotc: Run, arguments: list[str]) -> None:
    done = aotc(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout


def test_help_fits_daily_commands_on_the_first_screen_of_a_terminal() -> None:
    with click.Context(cli, info_name="aotc", terminal_width=80) as context:
        screen = cli.get_help(context).splitlines()[:24]
    for framework in ("JAX", "PyTorch", "ONNX", "Keras", "TensorFlow"):
        assert any(framework in line for line in screen)
    listed = [line.split()[0] for line in screen if line.startswith("  ")]
    assert {"init", "build", "targets", "verify", "inspect", "run"} <= set(listed)


def test_sections_of_the_help_list_daily_commands_first_and_every_command_once() -> None:
    sections = COMMANDS.sections()
    assert list(sections)[: len(SECTIONS)] == list(SECTIONS)
    assert list(sections)[-1] == MORE and sections[MORE]
    for title, daily in SECTIONS.items():
        assert tuple(sections[title][: len(daily)]) == daily
    assert sorted(name for names in sections.values() for name in names) == sorted(COMMANDS)


def test_the_help_of_a_group_tells_in_a_line_of_a_terminal_what_each_command_does() -> None:
    groups = [cli, *(each for each in cli.commands.values() if isinstance(each, click.Group))]
    assert set(cli.list_commands(click.Context(cli))) == set(cli.commands)
    for group in groups:
        with click.Context(group, info_name="aotc", terminal_width=80) as context:
            lines = group.get_help(context).splitlines()
        for name in group.commands:
            (line,) = (line for line in lines if line.split()[:1] == [name])
            assert len(line) <= 80 and line.endswith("."), line
            assert not line.endswith("..."), line


def test_an_argument_after_two_dashes_is_no_option(aotc: Run) -> None:
    done = aotc("inspect", "--", "--json")
    assert (done.exit_code, done.stdout, done.codes) == (5, "", ["AOTC-E108"])
    misused = aotc("inspect", "--", "--json", "another")
    assert (misused.exit_code, misused.stdout, misused.codes) == (2, "", ["AOTC-E001"])


def test_internal_error_is_one_line_and_code_1(aotc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr(bundle_sources, "open_streamed", broken)
    done = aotc("inspect", "b")
    assert (done.exit_code, done.stdout) == (1, "")
    first, advice = done.stderr.splitlines()
    assert first == "internal error: ZeroDivisionError: one"
    assert "report it" in advice
    assert "Traceback" in aotc("inspect", "b", "-v").stderr
    done = aotc("inspect", "b", "--json")
    assert (done.exit_code, done.document["ok"], done.document["exit_code"]) == (1, False, 1)
    assert done.document["internal_error"].startswith("ZeroDivisionError")


def test_a_verbose_refusal_has_its_traceback_before_the_finding(aotc: Run) -> None:
    done = aotc("inspect", "gone", "--verbose")
    assert done.exit_code == 5
    assert "Traceback" in done.stderr
    assert done.stderr.index("Traceback") < done.stderr.rindex("error[AOTC-E108]: ")


def test_a_name_that_is_no_utf8_fits_into_text_and_json(aotc: Run) -> None:
    name = os.fsdecode(b"\xff")
    assert aotc("inspect", name).codes == ["AOTC-E108"]
    (finding,) = aotc("inspect", name, "--json").document["findings"]
    assert finding["where"] == r"\udcff"
    made = aotc("keygen", name, "--plain", "--json")
    assert made.document["private_key"] == r"\udcff.key"
    assert aotc("keygen", name + "2", "--plain").exit_code == 0


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        (MemoryError(), True),
        (ImportError("libjax_common.so: failed to map segment from shared object"), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("No module named 'jax'"), False),
    ],
)
@pytest.mark.parametrize("limit", [400 * 2**20, resource.RLIM_INFINITY])
def test_want_of_memory_under_a_limit_of_address_space_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, error: Exception, is_told: bool, limit: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    refused = _startup_problem(error)
    if not is_told or limit == resource.RLIM_INFINITY:
        assert refused is None
    else:
        (finding,) = refused.findings if refused else ()
        assert finding.code == "AOTC-E032" and "ulimit -v" in finding.hint
