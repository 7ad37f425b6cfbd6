"""`aotc channel`: made, published by several people, renewed, rotated, and asked."""

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Bundle, Run

pytest.importorskip("tuf", reason="pip install 'aotc[channel]'")

from aotc.commands.channel import channel_host
from aotc.commands.channel.channel_repository import Repository


@pytest.fixture
def folder(aotc: Run, digits_bundle: Bundle, tmp_path: Path) -> Path:
    """The current folder: digits.aotb, keys, and a channel whose targets two people sign."""
    shutil.copyfile(digits_bundle[0], tmp_path / "digits.aotb")
    shutil.copyfile(digits_bundle[1], tmp_path / "trust.toml")
    for name in ("root", "ci", "release", "online", "other"):
        aotc("keygen", name, "--plain")
    assert aotc(*init("channel")).exit_code == 0
    return tmp_path


def init(name: str, *more: str) -> list[str]:
    roles = ["--root", "root.pub", "--targets", "ci.pub", "--targets", "release.pub"]
    online = ["--online", "online.pub", "--key", "root.key"]
    return ["channel", "init", name, *roles, "--targets-threshold", "2", *online, *more]


def publish(key: str, *more: str, bundle: str = "digits.aotb") -> list[str]:
    where = ["--channel", "production"]
    return ["channel", "publish", "channel", bundle, *where, "--key", f"{key}.key", *more]


RENEW = ["channel", "publish", "channel", "--online-key", "online.key"]


def published(aotc: Run) -> None:
    aotc(*publish("ci"))
    aotc(*publish("release", "--online-key", "online.key"))


def trusting(folder: Path, source: str, root_file: str) -> None:
    """Have the policy name a channel."""
    with (folder / "trust.toml").open("a") as file:
        file.write(
            f'[channel]\nname = "production"\nsource = "{source}"\n'
            f'root_file = "{root_file}"\nstate = "seen"\n'
        )


def test_two_people_and_a_machine_publish_a_bundle(aotc: Run, folder: Path) -> None:
    first = aotc(*publish("ci"), "--json").document
    assert (first["path"], first["published"], first["missing"]) == ("production/digits", {}, 1)
    text = aotc("channel", "status", "channel").stdout
    assert text.startswith("nothing is published yet\nwaiting    production/digits: 1 more")
    second = aotc(*publish("release"), "--json").document
    assert (second["published"], second["missing"], second["needs_online_key"]) == ({}, 0, True)
    last = aotc(*RENEW, "--json").document
    assert last["published"] == {"targets": 1, "snapshot": 1, "timestamp": 1}
    status = aotc("channel", "status", "channel", "--json").document
    assert status["waiting"] == {}
    lines = aotc("channel", "status", "channel").stdout.splitlines()
    assert [line.split()[0].rstrip(",") for line in lines] == [
        "root", "snapshot", "targets", "timestamp", "production/digits",
    ]  # fmt: skip
    aotc("channel", "publish", "channel", "digits.aotb", "--channel", "staging", "--key", "ci.key")
    assert "waiting    staging/digits: 1 more" in aotc("channel", "status", "channel").stdout
    (named,) = status["names"].items()
    assert named[0] == "production/digits"
    inspected = aotc("inspect", "digits.aotb", "--json").document
    assert named[1]["root_digest"] == inspected["root_digest"]
    assert status["roles"]["targets"]["threshold"] == 2
    assert [status["roles"][role]["version"] for role in sorted(status["roles"])] == [1, 1, 1, 1]


def test_a_policy_asks_as_a_host_does_and_keeps_what_it_saw(aotc: Run, folder: Path) -> None:
    published(aotc)
    trusting(folder, "channel", "channel/1.root.json")
    shown = aotc("trust", "show", "trust.toml")
    assert "\nchannel    production at channel, asked by verify --channel\n" in shown.stdout
    assert aotc("channel", "status", "--trust", "trust.toml").exit_code == 0
    assert (folder / "seen" / "state").exists()
    verify = ["verify", "digits.aotb", "--trust", "trust.toml"]
    text = aotc(*verify, "--channel").stdout
    assert "\nchannel production names it, metadata 1, good until " in text
    assert "\nchannel production was not asked: --channel" in aotc(*verify).stdout
    found = aotc(*verify, "--channel", "--json").document
    assert found["gates"][-1] == "channel"
    assert (found["channel"]["name"], found["channel"]["timestamp"]) == ("production", 1)
    shutil.copytree(folder / "channel", folder / "old")
    aotc(*RENEW)
    aotc(*verify, "--channel")
    text = (folder / "trust.toml").read_text("utf-8").replace('"channel"', '"old"')
    (folder / "trust.toml").write_text(text, "utf-8")
    assert aotc("channel", "status", "--trust", "trust.toml").codes == ["AOTC-E328"]


def test_renewing_needs_the_online_key_alone(aotc: Run, folder: Path) -> None:
    published(aotc)
    assert aotc(*RENEW, "--json").document["published"] == {"timestamp": 2}
    where = ["--channel", "staging", "--key", "ci.key"]
    aotc("channel", "publish", "channel", "digits.aotb", *where)
    again = aotc(*RENEW, "--json").document
    assert again["published"] == {"timestamp": 3}
    status = aotc("channel", "status", "channel", "--json").document
    assert (list(status["names"]), status["roles"]["timestamp"]["version"]) == (
        ["production/digits"],
        3,
    )
    assert status["waiting"] == {"production/digits": 1, "staging/digits": 1}
    where[-1] = "release.key"
    aotc("channel", "publish", "channel", "digits.aotb", *where)
    assert aotc(*RENEW, "--json").document["published"] == {
        "targets": 2,
        "snapshot": 2,
        "timestamp": 4,
    }
    status = aotc("channel", "status", "channel", "--json").document
    assert list(status["names"]) == ["production/digits", "staging/digits"]


def test_where_nothing_was_ever_named_there_is_nothing_to_renew(refused: Run, folder: Path) -> None:
    refused(RENEW, 2, "AOTC-E028")
    assert [path.name for path in (folder / "channel").iterdir()] == ["1.root.json"]


def test_signer_signs_only_what_was_asked(aotc: Run, refused: Run, folder: Path) -> None:
    aotc(*publish("ci"))
    where = ["--channel", "staging", "--key", "release.key", "--online-key", "online.key"]
    told = refused(["channel", "publish", "channel", "digits.aotb", *where], 2, "AOTC-E028")
    assert "another channel update is pending" in told.stderr
    status = aotc("channel", "status", "channel", "--json").document
    assert status["waiting"] == {"production/digits": 1}
    made = aotc(*publish("release", "--online-key", "online.key"), "--json").document
    assert made["published"] == {"targets": 1, "snapshot": 1, "timestamp": 1}


def test_the_policy_says_which_channel_it_is(aotc: Run, refused: Run, folder: Path) -> None:
    trusting(folder, "channel", "first.root.json")
    shutil.copyfile(folder / "channel" / "1.root.json", folder / "first.root.json")
    assert aotc(*publish("ci", "--trust", "trust.toml")).exit_code == 0
    aotc(*init("another", "--days", "9"))
    shutil.copyfile(folder / "another" / "1.root.json", folder / "first.root.json")
    told = refused(publish("release", "--trust", "trust.toml"), 2, "AOTC-E027")
    assert "another root than first.root.json" in told.stderr
    rotate = ["channel", "rotate", "channel", "--key", "root.key", "--trust", "trust.toml"]
    assert "another root than first.root.json" in refused(rotate, 2, "AOTC-E027").stderr
    shutil.copyfile(folder / "channel" / "1.root.json", folder / "first.root.json")
    told = aotc(*rotate)
    lines = [line.split(maxsplit=1) for line in told.stdout.splitlines()]
    assert lines[0] == ["wrote", "channel/2.root.json"]
    assert [name for name, _ in lines[1:]] == ["root", "snapshot", "targets", "timestamp"]
    assert [said[:5] for _, said in lines[1:]] == ["1 of ", "1 of ", "2 of ", "1 of "]


def test_signer_by_policy_remembers(aotc: Run, refused: Run, folder: Path) -> None:
    shutil.copyfile(folder / "channel" / "1.root.json", folder / "first.root.json")
    trusting(folder, "https://models.example.org", "first.root.json")
    trust = ["--trust", "trust.toml"]
    published(aotc)
    old = shutil.copytree(folder / "channel", folder / "old")
    assert aotc(*RENEW, *trust).exit_code == 0
    shutil.copytree(old, folder / "channel", dirs_exist_ok=True)
    rotate = ["channel", "rotate", "channel", "--key", "root.key"]
    for command in (RENEW, publish("ci"), rotate):
        told = refused([*command, *trust], 2, "AOTC-E027")
        assert "timestamp metadata of version 1" in told.stderr
    for command in (RENEW, RENEW, rotate):
        assert aotc(*command).exit_code == 0
    for command in (RENEW, publish("ci"), rotate):
        assert aotc(*command, *trust).exit_code == 0
    (folder / "channel" / "3.root.json").unlink()
    told = refused([*RENEW, *trust], 2, "AOTC-E027")
    assert "root metadata of version 2" in told.stderr


def test_keys_are_rotated_and_the_old_ones_have_no_role_any_more(aotc: Run, folder: Path) -> None:
    published(aotc)
    rotate = ["channel", "rotate", "channel", "--online", "other.pub", "--key", "root.key"]
    made = aotc(*rotate, "--json").document
    assert (made["root"], made["changed"]) == ("channel/2.root.json", ["snapshot", "timestamp"])
    assert aotc(*RENEW).codes == ["AOTC-E028"]
    assert aotc("channel", "status", "channel").codes == ["AOTC-E330"]
    renewed = aotc(*RENEW[:-1], "other.key", "--json").document
    assert renewed["published"] == {"snapshot": 2, "timestamp": 2}
    assert aotc("channel", "status", "channel", "--json").document["roles"]["root"]["version"] == 2


def test_bundle_is_published_again_after_rotation(aotc: Run, refused: Run, folder: Path) -> None:
    published(aotc)
    aotc("channel", "rotate", "channel", "--targets", "other.pub", "--key", "root.key")
    refused(RENEW, 2, "AOTC-E028")
    refused(publish("ci"), 2, "AOTC-E028")
    where = ["--channel", "staging", "--key", "other.key", "--online-key", "online.key"]
    told = aotc("channel", "publish", "channel", "digits.aotb", *where)
    assert told.stderr.startswith("note: production/digits is not named any more")
    made = aotc(*publish("other", "--online-key", "online.key"), "--json").document
    assert made["published"] == {"targets": 3, "snapshot": 3, "timestamp": 3}
    assert made["gone"] == []
    status = aotc("channel", "status", "channel", "--json").document
    assert list(status["names"]) == ["production/digits", "staging/digits"]


def test_root_with_too_few_keys_is_not_written(aotc: Run, refused: Run, folder: Path) -> None:
    for keys in (["--key", "other.key"], [], ["--root", "other.pub", "--key", "root.key"]):
        refused(["channel", "rotate", "channel", *keys], 2, "AOTC-E028")
    refused(["channel", "rotate", "channel", "--root", "other.pub", "--key", "other.key"],
            2, "AOTC-E028")  # fmt: skip
    both = ["--root", "other.pub", "--key", "root.key", "--key", "other.key"]
    assert aotc("channel", "rotate", "channel", *both).exit_code == 0
    refused(["channel", "rotate", "channel", "--key", "root.key"], 2, "AOTC-E028")
    assert aotc("channel", "rotate", "channel", "--key", "other.key").exit_code == 0
    assert sorted(path.name for path in (folder / "channel").iterdir()) == [
        "1.root.json", "2.root.json", "3.root.json",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--root", "root.pub"], "AOTC-E028"),
        (["--root-threshold", "2"], "AOTC-E028"),
        (["--targets-threshold", "9"], "AOTC-E028"),
        (["--root", "other.pub", "--root-threshold", "2"], "AOTC-E028"),
        (["--root", "nowhere.pub"], "AOTC-E006"),
        (["--root", "root.key"], "AOTC-E310"),
    ],
)
def test_weak_channel_is_not_made(more: list[str], code: str, refused: Run, folder: Path) -> None:
    refused(init("new", *more), 5 if code == "AOTC-E310" else 2, code)
    assert not (folder / "new").exists()


def test_a_channel_is_not_made_over_anything(aotc: Run, refused: Run, folder: Path) -> None:
    refused(init("channel"), 2, "AOTC-E005")
    refused(init("digits.aotb"), 2, "AOTC-E005")
    (folder / "empty").mkdir()
    assert aotc(*init("empty")).exit_code == 0


def test_what_is_no_channel_is_refused(refused: Run, folder: Path) -> None:
    refused(["channel", "status", "nowhere"], 2, "AOTC-E027")
    refused(["channel", "publish", "nowhere", "--online-key", "online.key"], 2, "AOTC-E027")
    (folder / "bare").mkdir()
    refused(["channel", "status", "bare"], 2, "AOTC-E027")
    (folder / "channel" / "2.root.json").write_text("{}", "utf-8")
    refused(["channel", "status", "channel"], 2, "AOTC-E027")


def test_what_is_published_was_looked_at(aotc: Run, refused: Run, folder: Path) -> None:
    data = bytearray((folder / "digits.aotb").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "bad.aotb").write_bytes(data)
    assert aotc(*publish("ci", bundle="bad.aotb")).exit_code == 5
    aotc("trust", "init", "--key", "other.pub", "--name", "digits", "-o", "other.toml")
    refused(publish("ci", "--trust", "other.toml"), 5, "AOTC-E302")
    assert aotc(*publish("ci", "--trust", "trust.toml")).exit_code == 0
    where = ["--channel", "a/b", "--key", "ci.key"]
    refused(["channel", "publish", "channel", "digits.aotb", *where], 2, "AOTC-E001")


def test_written_bundle_unused(refused: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = channel_host.open_valid

    def opened(source: Any, *more: Any) -> Any:
        read = real(source, *more)
        index = bytes(source.blob(read.root_digest))
        with (folder / "digits.aotb").open("r+b") as file:
            file.seek(file.read().index(index))
            file.write(index[:-1] + b" ")
        return read

    monkeypatch.setattr(channel_host, "open_valid", opened)
    refused(publish("ci"), 5, "AOTC-E201")


@pytest.mark.parametrize(
    "arguments",
    [
        ["publish", "channel"],
        ["publish", "channel", "digits.aotb"],
        ["publish", "channel", "digits.aotb", "--channel", "production"],
        ["publish", "channel", "--channel", "production", "--online-key", "online.key"],
        ["publish", "channel", "--key", "ci.key", "--online-key", "online.key"],
        ["status"],
        ["status", "channel", "--trust", "trust.toml"],
    ],
)
def test_conflicting_options_are_refused(arguments: list[str], refused: Run, folder: Path) -> None:
    refused(["channel", *arguments], 2, "AOTC-E001")


def test_a_policy_without_a_channel_has_no_status(refused: Run, folder: Path) -> None:
    refused(["channel", "status", "--trust", "trust.toml"], 5, "AOTC-E309")


def test_what_ends_soon_is_noted(aotc: Run, folder: Path) -> None:
    published(aotc)
    assert aotc("channel", "status", "channel").stderr == ""
    aotc("channel", "rotate", "channel", "--key", "root.key", "--days", "29")
    told = aotc("channel", "status", "channel")
    assert told.stderr.startswith("note: root expires on ")
    assert len(aotc("channel", "status", "channel", "--json").document["notes"]) == 1


def test_a_snapshot_is_signed_anew_before_it_ends(aotc: Run, folder: Path) -> None:
    published(aotc)
    repository = Repository(folder / "channel")
    from aotc.bundle.sign.signer import load_signer

    online = load_signer(folder / "online.key", None)
    later = datetime(datetime.now(UTC).year + 1, 12, 1, tzinfo=UTC)
    written = repository.publish(None, [], online, later, 7).versions
    assert written == {"snapshot": 2, "timestamp": 2}
    shot = json.loads((folder / "channel" / "2.snapshot.json").read_bytes())["signed"]["meta"]
    assert shot["targets.json"]["version"] == 1
    assert Repository(folder / "channel").publish(None, [], online, later, 7).versions == {
        "timestamp": 3
    }


def test_encrypted_keys_sign(aotc: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "secret").write_text("open sesame\n", "utf-8")
    given = ["--passphrase-file", "secret"]
    for name in ("p-root", "p-online"):
        aotc("keygen", name, *given)
    roles = ["--root", "p-root.pub", "--targets", "p-root.pub", "--online", "p-online.pub"]
    made = ["channel", "init", "locked", *roles, "--key", "p-root.key"]
    assert aotc(*made).codes == ["AOTC-E007"]
    assert aotc(*made, *given).exit_code == 0
    where = ["--channel", "production", "--key", "p-root.key", "--online-key", "p-online.key"]
    published = ["channel", "publish", "locked", "digits.aotb", *where]
    assert aotc(*published).codes == ["AOTC-E007"]
    assert aotc(*published, *given).exit_code == 0
    assert aotc("channel", "status", "locked").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [init("new"), ["channel", "rotate", "channel"], RENEW, ["channel", "status", "channel"]],
)
def test_without_python_tuf_every_command_says_what_to_install(
    arguments: list[str], refused: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tuf.api", None)
    told = refused(arguments, 5, "AOTC-E333")
    assert "pip install" in told.stderr
