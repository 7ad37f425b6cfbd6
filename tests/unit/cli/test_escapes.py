"""Texts of files, registries and requests steer no terminal, and forge no line of a command."""

import json
import shutil
import sys
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from aotc.cli.command_output import print_notes
from aotc_runtime.base import rendering
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats import oci_layout
from aotc_serve.store import Store
from tests.conftest import ROOT
from tests.unit.cli.conftest import Aotc, Done

EVIL = "x\x1b[31m\x9b2J\x07\u202ek\u2028y\x7f\r\nok      forged\ud800"
"""Colours, a bell, an order of letters, and four ways to begin a line."""

GOLDEN = ROOT / "tests" / "golden"


def require_plain(text: str) -> None:
    """Every character is visible, and no line was made by a text of somebody else."""
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)
        assert not line.startswith("ok      forged"), text


def require_plain_command(done: Done) -> None:
    require_plain(done.stdout)
    require_plain(done.stderr)


def test_every_character_that_is_not_visible_is_spelled_out() -> None:
    every = [chr(number) for number in range(sys.maxunicode + 1)]
    steering = [c for c in every if unicodedata.category(c)[0] in "CZ" and c != " "]
    assert len(steering) > 1000
    for start in range(0, len(steering), 4096):
        assert rendering.printable("".join(steering[start : start + 4096])).isprintable()


def test_a_finding_is_plain_in_each_field() -> None:
    fields = ("title", "where", "expected", "found", "hint")
    for field in fields:
        parts = dict.fromkeys(fields, "x") | {field: EVIL}
        found = Finding(code="AOTC-E001", **parts)
        require_plain(rendering.render([found]))
        require_plain(rendering.usage_text(found))
        require_plain(rendering.sentence(found))
        require_plain(rendering.document_text(rendering.refusal([found], 1, {})))


def test_a_document_is_plain_and_means_the_same() -> None:
    text = EVIL.replace("\ud800", "\U0001f600")
    document = {text: [text, {"a": text}]}
    written = rendering.document_text(document)
    require_plain(written)
    assert json.loads(written) == document
    assert json.loads(rendering.json_line(document)) == document


@pytest.mark.parametrize("value", [EVIL, [EVIL, EVIL], f'a "b={EVIL}', "\\", '"', "", "a b", "a=b"])
def test_a_field_of_a_log_line_is_one_field(value: Any) -> None:
    line = rendering.log_field(value)
    assert line.isprintable()
    if line.startswith('"'):
        inside = line[1:-1].replace("\\\\", "").replace('\\"', "")
        assert '"' not in inside and line.endswith('"')
    else:
        assert not {*' "=\\'} & {*line} and line


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("event", ["serving", "refused", "looking", "unloaded", "listening"])
def test_events_are_plain(event: str, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    server = pytest.importorskip("aotc_serve.server_process")
    names = ("bundle", "name", "version", "digest", "models", "reason", "serving", "http", "grpc")
    for name in names:
        facts = dict.fromkeys(names, "x") | {name: [EVIL] if name == "models" else EVIL}
        server._teller(as_json)(event, facts)
        (line,) = capsys.readouterr().out.removesuffix("\n").split("\n")
        require_plain(line)


def test_a_note_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_notes(["HTTP 500 \x1b[31mno\nnote: the bundle is signed", "\udcff"])
    assert capsys.readouterr().err == (
        "note: HTTP 500 \\x1b[31mno\\nnote: the bundle is signed\nnote: \\udcff\n"
    )


def test_a_traceback_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    rendering.warn_of(ValueError(EVIL.replace("\n", "")))
    require_plain(capsys.readouterr().err)


def policy(folder: Path) -> Path:
    """A policy that says something odd wherever it may."""
    text = json.dumps(EVIL.replace("\ud800", ""))
    key = json.dumps((GOLDEN / "golden.pub").read_text("utf-8"))
    path = folder / "odd.toml"
    path.write_text(
        f"""schema = 1
name = {text}
threshold = 1

[[keys]]
name = {text}
holder = {text}
builders = [{text}]
public_key = {key}

[revoked]
bundles = ["sha256:{"0" * 64}"]
""",
        encoding="utf-8",
    )
    return path


def test_policy_is_plain(aotc: Aotc, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = policy(tmp_path)
    for more in ((), ("--json",)):
        done = aotc("trust", "show", path, *more)
        require_plain_command(done)
        require_plain_command(aotc("trust", "check", path, *more))
    from aotc.bundle.trust.trust_state import state_of
    from aotc.report.trust_report import policy_document, policy_lines
    from aotc_runtime.verification.policy_reader import read_policy

    # Each text of the document, whether a policy can say it or not.
    plain = ROOT / "tests" / "golden" / "golden.pub"
    good = tmp_path / "good.toml"
    assert aotc("trust", "init", "--name", "layers", "--key", plain, "-o", good).exit_code == 0
    document = policy_document("p", state_of(read_policy(good), datetime.now(UTC), "p"))
    document["keys"] = [{**document["keys"][0], "name": "n", "holder": "h", "builders": ["b"]}]
    document |= {"certifiers": document["keys"], "timestamp_authorities": ["t"], "engines": ["e"]}
    document |= {"channel": {"name": "c", "source": "s"}, "minimum_version": "1.0.0"}
    for odd in variants(document):
        rendering.say(*policy_lines(odd))
    shown = capsys.readouterr().out
    assert shown.count("forged") > 10
    require_plain(shown)


def variants(value: Any) -> list[Any]:
    """The value, once for each text in it, which is odd instead."""
    match value:
        case str():
            return [EVIL]
        case dict():
            return [value | {name: odd} for name, each in value.items() for odd in variants(each)]
        case list():
            return [
                [*value[:number], odd, *value[number + 1 :]]
                for number, each in enumerate(value)
                for odd in variants(each)
            ]
        case _:
            return []


def test_a_store_is_listed_plain(aotc: Aotc, tmp_path: Path) -> None:
    """Names of targets are annotations of an index that nobody has vouched for."""
    store = Store(tmp_path / "store")
    data = msgspec.json.encode(
        {
            "schemaVersion": 2,
            "mediaType": oci_layout.INDEX_TYPE,
            "manifests": [
                {
                    "mediaType": oci_layout.MANIFEST_TYPE,
                    "digest": f"sha256:{'1' * 64}",
                    "size": 1,
                    "annotations": {oci_layout.TARGET_ANNOTATION: EVIL.replace("\ud800", "")},
                }
            ],
        },
        order="sorted",
    )
    from aotc_runtime.base.digest import sha256

    store.files.put(sha256(data), data)
    store.keep(
        oci_layout.Entry(mediaType=oci_layout.INDEX_TYPE, digest=sha256(data), size=len(data)), ()
    )
    for more in ((), ("--json",)):
        done = aotc("store", "ls", "--store", store.folder, *more)
        assert done.exit_code == 0
        require_plain_command(done)
    assert "forged" in done.stdout


@pytest.mark.parametrize("more", [(), ("--json",), ("-v",)])
@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "BUNDLE"),
        ("inspect", "MISSING"),
        ("verify", "BUNDLE", "--trust", "POLICY"),
        ("verify", "BUNDLE", "--trust", "MISSING"),
        ("diff", "BUNDLE", "BUNDLE"),
        ("explain", "BUNDLE", "--trust", "POLICY"),
        ("report", "BUNDLE", "-o", "OUT"),
        ("compat", "BUNDLE", "--trust", "POLICY"),
        ("sign", "BUNDLE", "--key", "MISSING"),
        ("trust", "show", "POLICY"),
        ("trust", "check", "POLICY"),
        ("trust", "init", "--name", "EVIL", "--key", "MISSING", "-o", "OUT"),
        ("trust", "revoke", "POLICY", "--key", "EVIL"),
        ("store", "ls", "--store", "MISSING"),
        ("store", "verify", "--store", "MISSING"),
        ("cache", "info", "--cache-dir", "MISSING"),
        ("targets", "show", "EVIL"),
        ("extract", "BUNDLE", "--target", "EVIL", "-o", "OUT"),
        ("merge", "BUNDLE", "BUNDLE", "-o", "OUT"),
        ("push", "BUNDLE", "EVIL"),
        ("pull", "EVIL", "-o", "OUT"),
        ("build", "MISSING"),
        ("init", "EVIL"),
        ("EVIL",),
        ("inspect", "BUNDLE", "--EVIL"),
    ],
    ids=" ".join,
)
def test_a_command_about_odd_names_is_plain(
    command: tuple[str, ...], more: tuple[str, ...], aotc: Aotc, tmp_path: Path
) -> None:
    evil = EVIL.replace("\ud800", "")
    bundle = tmp_path / f"b{evil}.aotb"
    shutil.copy(GOLDEN / "layers.aotb", bundle)
    trust = policy(tmp_path).rename(tmp_path / f"p{evil}.toml")
    named = SimpleNamespace(
        BUNDLE=str(bundle),
        POLICY=str(trust),
        MISSING=str(tmp_path / f"m{evil}"),
        OUT=str(tmp_path / f"o{evil}"),
        EVIL=evil,
    )
    words = ["--" + evil if word == "--EVIL" else getattr(named, word, word) for word in command]
    require_plain_command(aotc(*words, *more))
