"""A server of a channel cannot name another bundle or an older one, or hold back a new one."""

import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Bundle

pytest.importorskip("tuf", reason="pip install ./runtime './runtime/serve[channel]'")

from tuf.api.exceptions import DownloadError

from aotc.bundle.sign.signer import KeyType, LocalSigner
from aotc.commands.channel.channel_repository import Repository
from aotc_runtime.__main__ import main as runtime_main
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.trust_policy import Channel
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from aotc_serve.channel import channel_client, channel_state, metadata_sources

from .channels import INDEX, NEVER, Deployed, ago, keys_of, now, serving
from .doors import READY, Answer, Capture, commanded, loaded, toolchain


@pytest.fixture
def deployed(tmp_path: Path) -> Deployed:
    made = Deployed(tmp_path / "deployed")
    made.publish()
    return made


def test_a_host_learns_what_is_deployed(deployed: Deployed) -> None:
    current = deployed.ask("channel", "digits", "other")
    assert [*current.entries] == ["digits"]
    entry = current.entries["digits"]
    assert (entry.path, entry.version) == ("production/digits", "1.0.0")
    assert not [*channel_client.check_newest(current, "digits", "1.0.0", INDEX)]
    deployed.publish(version="1.1.0", index=b"another")
    current = deployed.ask("channel", "digits")
    assert current.entries["digits"].version == "1.1.0"
    assert [found.code for found in channel_client.check_newest(current, "digits", "1", INDEX)] == [
        "AOTC-E335"
    ]
    assert [role.version for role in current.roles.values()] == [1, 2, 2, 2]


@pytest.mark.parametrize(
    ("named", "asked", "code"),
    [
        ("production/other", "production", "AOTC-E327"),
        ("staging/digits", "production", "AOTC-E327"),
        ("production/digits", "staging", "AOTC-E327"),
    ],
)
def test_other_name_or_channel_rejected(named: str, asked: str, code: str, tmp_path: Path) -> None:
    other = Deployed(tmp_path / "other")
    other.publish(named)
    current = other.ask("channel", "digits", name=asked)
    assert [found.code for found in channel_client.check_newest(current, "digits", "1", INDEX)] == [
        code
    ]


@pytest.mark.parametrize("custom", [None, "1.0.0", [], {}, {"version": 1}, {"version": None}])
def test_what_a_channel_says_of_the_version_may_be_nothing(custom: Any, deployed: Deployed) -> None:
    """It is for messages; the digest says which bundle it is."""

    def say(signed: Any) -> None:
        signed.targets["production/digits"].unrecognized_fields["custom"] = custom

    deployed.change("1.targets.json", say, *deployed.release)
    deployed.lead_to(1)
    current = deployed.ask("channel", "digits")
    assert current.entries["digits"].version == ""
    assert not [*channel_client.check_newest(current, "digits", "1.0.0", INDEX)]


# Rollback.


def from_an_older_state(deployed: Deployed, old: Path) -> str:
    return str(old)


def by_an_older_snapshot(deployed: Deployed, old: Path) -> str:
    """Return metadata that name it, signed by the online key."""
    meta = json.loads((old / "timestamp.json").read_bytes())["signed"]["meta"]["snapshot.json"]

    def back(signed: Any) -> None:
        signed.version += 1
        signed.snapshot_meta = type(signed.snapshot_meta).from_dict(meta)

    deployed.change("timestamp.json", back, deployed.online)
    return "channel"


def by_older_targets(deployed: Deployed, old: Path) -> str:
    """Return metadata that name them, signed by the online key."""
    meta = json.loads((old / "1.snapshot.json").read_bytes())["signed"]["meta"]["targets.json"]
    shutil.copy(deployed.served / "2.snapshot.json", deployed.served / "3.snapshot.json")

    def back(signed: Any) -> None:
        signed.version += 1
        signed.meta["targets.json"] = type(signed.meta["targets.json"]).from_dict(meta)

    deployed.change("3.snapshot.json", back, deployed.online)

    def forth(signed: Any) -> None:
        signed.version += 1
        data = (deployed.served / "3.snapshot.json").read_bytes()
        signed.snapshot_meta = type(signed.snapshot_meta).from_data(3, data, ["sha256"])

    deployed.change("timestamp.json", forth, deployed.online)
    return "channel"


@pytest.mark.parametrize("attack", [from_an_older_state, by_an_older_snapshot, by_older_targets])
def test_old_channel_rejected(attack: Callable[[Deployed, Path], str], deployed: Deployed) -> None:
    old = deployed.kept("old")
    deployed.publish(version="1.1.0", index=b"another")
    assert deployed.answer() == NEVER
    assert deployed.answer(attack(deployed, old)) == "AOTC-E328"


def test_an_older_timestamp_is_refused_and_is_not_what_was_seen_last(deployed: Deployed) -> None:
    deployed.kept("old")
    deployed.renew()
    assert deployed.answer() == NEVER
    assert deployed.answer("old") == "AOTC-E328"
    assert deployed.answer() == NEVER


def test_an_older_root_is_no_newer_one(deployed: Deployed) -> None:
    deployed.rotate()
    assert deployed.answer() == NEVER
    shutil.copy(deployed.served / "2.root.json", deployed.served / "3.root.json")
    assert deployed.answer() == "AOTC-E328"
    shutil.copy(deployed.first_root, deployed.served / "3.root.json")
    assert deployed.answer() == "AOTC-E328"


def test_a_root_that_was_seen_is_kept_where_the_mirror_has_lost_it(deployed: Deployed) -> None:
    """Else keys that were rotated away, because they were stolen, would speak again."""
    stolen, fresh = deployed.online, LocalSigner.ephemeral()
    online = (keys_of([fresh]), 1)
    deployed.rotate(snapshot=online, timestamp=online)
    deployed.online = fresh
    deployed.renew()
    assert deployed.answer() == NEVER
    (deployed.served / "2.root.json").unlink()
    deployed.change("timestamp.json", lambda signed: setattr(signed, "version", 9), stolen)
    assert deployed.answer() == "AOTC-E330"


def test_a_root_that_the_old_keys_did_not_sign_is_refused(deployed: Deployed) -> None:
    thief = LocalSigner.ephemeral()
    deployed.rotate()
    deployed.change("2.root.json", lambda signed: None, thief)
    assert deployed.answer() == "AOTC-E330"


# Freeze.


@pytest.mark.parametrize("role", ["timestamp", "root", "snapshot", "targets"])
def test_metadata_that_have_expired_are_refused(role: str, tmp_path: Path) -> None:
    frozen = Deployed(tmp_path / "frozen")
    if role == "root":
        frozen.publish()
        frozen.rotate(days=1, when=ago(days=2))
    elif role == "timestamp":
        frozen.publish(when=ago(days=8))
        assert frozen.answer() == "AOTC-E329"
        frozen.renew()
        assert frozen.answer() == NEVER
        frozen.renew(when=ago(days=8))
    else:
        frozen.publish(when=ago(days=366))
        frozen.renew(when=ago(days=366) if role == "snapshot" else None)
        end = now() + timedelta(days=1)
        frozen.change("timestamp.json", lambda s: setattr(s, "expires", end), frozen.online)
    assert frozen.answer() == "AOTC-E329"


def test_host_does_not_believe_its_own_state_without_asking(deployed: Deployed) -> None:
    """A kept answer is good for as long as it says, and nothing is trusted without asking."""
    assert deployed.answer() == NEVER
    root = shutil.copy(deployed.first_root, deployed.folder / "root.json")
    shutil.rmtree(deployed.served)
    deployed.served.mkdir()
    assert deployed.answer(root_file=str(root)) == "AOTC-E331"


# Mix and match.


@pytest.mark.parametrize("file", ["2.snapshot.json", "2.targets.json"])
def test_files_of_several_states_do_not_go_together(file: str, deployed: Deployed) -> None:
    deployed.publish(version="1.1.0", index=INDEX[::-1])
    shutil.copy(deployed.served / file.replace("2", "1"), deployed.served / file)
    assert deployed.answer() == "AOTC-E330"


def test_metadata_of_another_channel_are_not_of_this_one(deployed: Deployed) -> None:
    other = Deployed(deployed.folder / "other")
    other.publish()
    for file in ("timestamp.json", "1.snapshot.json", "1.targets.json"):
        before = (deployed.served / file).read_bytes()
        shutil.copy(other.served / file, deployed.served / file)
        assert deployed.answer() == "AOTC-E330"
        (deployed.served / file).write_bytes(before)
    assert deployed.answer() == NEVER


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 100_000, b"\xff", b'{"signed": 1}'])
@pytest.mark.parametrize("file", ["timestamp.json", "1.snapshot.json", "2.root.json"])
def test_what_is_no_metadata_is_refused(file: str, data: bytes, deployed: Deployed) -> None:
    (deployed.served / file).write_bytes(data)
    assert deployed.answer() == "AOTC-E330"


# Thresholds.


def two_people(folder: Path, kind: KeyType = KeyType.ED25519) -> Deployed:
    signers = [LocalSigner.ephemeral(kind), LocalSigner.ephemeral(kind)]
    return Deployed(folder, root=signers[:], release=signers)


def test_one_key_that_signs_twice_is_one(tmp_path: Path) -> None:
    pair = two_people(tmp_path / "pair")
    pair.publish()
    document = json.loads((pair.served / "1.targets.json").read_bytes())
    first, second = document["signatures"]
    claimed = {**first, "keyid": second["keyid"]}
    for number, (signatures, expected) in enumerate(
        (
            ([first, second], NEVER),
            ([first], "AOTC-E330"),
            ([first, first], "AOTC-E330"),
            ([first, claimed], "AOTC-E330"),
        )
    ):
        made = json.dumps({**document, "signatures": signatures}).encode()
        (pair.served / "1.targets.json").write_bytes(made)
        pair.lead_to(1)
        assert pair.answer(state=f"seen-{number}") == expected, number


def spaced(digits: str) -> str:
    return " ".join(digits[at : at + 2] for at in range(0, len(digits), 2))


@pytest.mark.parametrize(
    ("kind", "spell"),
    [
        (KeyType.ED25519, str),
        (KeyType.ED25519, str.upper),
        (KeyType.ED25519, spaced),
        (KeyType.ECDSA_P256, str),
        (KeyType.ECDSA_P256, lambda pem: pem.replace("\n", "\r\n")),
    ],
    ids=["as it is", "upper case", "with spaces", "PEM", "PEM with other ends of lines"],
)
def test_twice_named_key_fails(kind: KeyType, spell: Callable[[str], str], tmp_path: Path) -> None:
    """python-tuf counts names of keys: who makes the root would fill a threshold alone."""
    pair = two_people(tmp_path / "pair", kind)
    one = pair.release[0]

    def twice(signed: Any) -> None:
        role, key = signed.roles["targets"], signed.keys[one.key_id].to_dict()
        key["keyval"] = {"public": spell(key["keyval"]["public"])}
        signed.keys["0" * 64] = type(signed.keys[one.key_id]).from_dict("0" * 64, key)
        role.keyids = [one.key_id, "0" * 64]

    pair.change("1.root.json", twice, *pair.root)
    pair.release = [one]
    pair.publish()
    found = Repository(pair.served)
    named = found.waiting()
    assert named is not None, "one signature is not enough"
    made = named.signatures[one.key_id]
    named.signatures["0" * 64] = type(made)("0" * 64, made.signature)
    found._write("waiting.targets.json", named)
    pair.renew()
    assert pair.answer() == "AOTC-E330"


@pytest.mark.parametrize("public", ["01" + "00" * 31, "ee" + "ff" * 30 + "7f", "00" * 32])
def test_a_key_that_anybody_can_sign_under_is_no_vote(public: str, deployed: Deployed) -> None:
    def weaken(signed: Any) -> None:
        role = signed.roles["targets"]
        document = signed.keys[role.keyids[0]].to_dict() | {"keyval": {"public": public}}
        signed.keys["0" * 64] = type(signed.keys[role.keyids[0]]).from_dict("0" * 64, document)
        role.keyids.append("0" * 64)

    assert deployed.answer(state="before") == NEVER
    deployed.change("1.root.json", weaken, *deployed.root)
    assert deployed.answer() == "AOTC-E330"


# What the host keeps.


def test_a_damaged_state_is_refused_and_not_forgotten(deployed: Deployed) -> None:
    assert deployed.answer() == NEVER
    path = deployed.folder / "seen" / channel_state.STATE
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        assert deployed.answer() == "AOTC-E332", at
    for cut in (0, 1, 71, 72, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:cut])
        assert deployed.answer() == "AOTC-E332", cut
    for text in (b"", b"{", b"[]", b'{"root.json": 1}', b"[" * 100_000):
        path.write_bytes(sha256(text).encode() + b"\n" + text)
        assert deployed.answer() == "AOTC-E332", text[:20]
    for name in ("../root.json", "/root.json", "a/b.json", "root.txt", "\0.json", ""):
        text = json.dumps({name: "x"}).encode()
        path.write_bytes(sha256(text).encode() + b"\n" + text)
        assert deployed.answer() == "AOTC-E332", name
    assert not (deployed.folder / "seen" / "root.json").exists()
    path.write_bytes(good)
    assert deployed.answer() == NEVER


def test_a_state_that_cannot_be_kept_is_refused(deployed: Deployed, tmp_path: Path) -> None:
    assert deployed.answer(state="missing/seen") == "AOTC-E332"
    (tmp_path / "file").touch()
    assert deployed.answer(state=str(tmp_path / "file")) == "AOTC-E332"
    assert deployed.answer(state="a\0b") == "AOTC-E332"
    for number, take in enumerate((Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path))):
        folder = tmp_path / f"taken-{number}"
        folder.mkdir()
        take(folder / channel_state.STATE)
        assert deployed.answer(state=str(folder)) == "AOTC-E332"


def test_a_state_is_not_written_through_a_link(deployed: Deployed, tmp_path: Path) -> None:
    folder, file = deployed.folder / "seen", tmp_path / "file"
    folder.mkdir(mode=0o700)
    file.write_text("mine")
    (folder / "state.new").symlink_to(file)
    assert (deployed.answer(), file.read_text()) == (NEVER, "mine")
    (folder / channel_state.STATE).unlink()
    (folder / channel_state.STATE).symlink_to(file)
    assert (deployed.answer(), file.read_text()) == ("AOTC-E332", "mine")


def test_what_was_seen_before_is_not_written_again(deployed: Deployed) -> None:
    """Hosts that ask every minute write once a week."""
    path = deployed.folder / "seen" / channel_state.STATE
    assert deployed.answer() == NEVER
    before = path.stat()
    assert deployed.answer() == NEVER
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    deployed.renew()
    assert deployed.answer() == NEVER
    assert path.stat().st_ino != before.st_ino


def test_only_its_owner_reads_or_writes_what_a_host_keeps(deployed: Deployed) -> None:
    assert deployed.answer() == NEVER
    assert (deployed.folder / "seen").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["everybody", "a group", "everybody above", "another user"])
def test_what_others_can_take_away_is_not_relied_on(how: str, deployed: Deployed) -> None:
    assert deployed.answer() == NEVER
    if how == "everybody":
        (deployed.folder / "seen").chmod(0o777)
    elif how == "everybody above":
        deployed.folder.chmod(0o1777)
        assert deployed.answer() == NEVER, "only who owns it may rename it"
        deployed.folder.chmod(0o777)
    elif os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    elif how == "a group":
        (deployed.folder / "seen").chmod(0o770)
        assert deployed.answer() == NEVER, "the group of this user"
        os.chown(deployed.folder / "seen", -1, 65534)
    else:
        os.chown(deployed.folder / "seen", 65534, 65534)
    assert deployed.answer() == "AOTC-E332"


def test_what_was_seen_of_a_channel_is_not_forgotten_for_another(deployed: Deployed) -> None:
    """Two policies that name one state: what one channel's keys signed means nothing to the
    other's, and would be taken for nothing.
    """
    old = deployed.kept("old")
    deployed.publish(version="1.1.0", index=b"another")
    assert deployed.answer() == NEVER
    seen = str(deployed.folder / "seen")
    other = Deployed(deployed.folder / "other")
    other.publish()
    for number in (1, 2):
        root_file = f"channel/{number}.root.json"
        assert other.answer(state=seen, root_file=root_file) == "AOTC-E332", number
        other.rotate()
    assert other.answer(state=seen, root_file="channel/3.root.json") == NEVER
    assert deployed.answer(str(old)) == "AOTC-E332"


def test_a_policy_may_name_a_later_root_and_not_an_earlier_one(deployed: Deployed) -> None:
    for _ in range(3):
        deployed.rotate()
    assert deployed.answer(root_file="channel/2.root.json") == NEVER
    assert deployed.answer(root_file="channel/3.root.json") == NEVER
    deployed.change("3.root.json", lambda signed: None, *deployed.root)
    assert deployed.answer(root_file="channel/3.root.json") == NEVER, "spelled otherwise"
    deployed.rotate()
    assert deployed.answer(root_file="channel/5.root.json") == NEVER, "the next one"
    assert deployed.answer(root_file="channel/1.root.json") == "AOTC-E332"
    deployed.publish(version="1.1.0", index=b"another")
    for _ in range(2):
        deployed.rotate()
    assert deployed.answer(root_file="channel/7.root.json") == NEVER, "others are skipped"
    assert deployed.answer(root_file="channel/5.root.json") == "AOTC-E332"


def _ask_again_and_again(channel: Channel, folder: Path, asked: Any) -> None:
    while True:
        channel_client.ask(channel, folder, ())
        asked.release()


def test_killed_processes_leave_a_readable_state(deployed: Deployed) -> None:
    """Nor does any of them see anything older: the channel moves on all the time."""
    context = multiprocessing.get_context("spawn")
    asked = context.Semaphore(0)
    channel = deployed.channel()
    for _ in range(3):
        asking = [
            context.Process(target=_ask_again_and_again, args=(channel, deployed.folder, asked))
            for _ in range(3)
        ]
        for process in asking:
            process.start()
        for _ in range(10):
            assert asked.acquire(timeout=120), "somebody was refused"
            deployed.renew()
        for process in asking:
            assert process.is_alive(), "nobody was refused"
            process.kill()
            process.join()
        assert deployed.answer() == NEVER
    left = {path.name for path in (deployed.folder / "seen").iterdir()}
    assert left == {channel_state.STATE, channel_state.LOCK}
    deployed.kept("old")
    deployed.renew()
    assert deployed.answer() == NEVER
    assert deployed.answer("old") == "AOTC-E328"


# Who is asked.


def endless(request: BaseHTTPRequestHandler, part: bytes, pause: float) -> None:
    request.send_response(200)
    request.end_headers()
    with suppress(OSError):
        while True:
            request.wfile.write(part)
            time.sleep(pause)


def elsewhere(request: BaseHTTPRequestHandler) -> None:
    """To the same server, with the same path: it would be answered for ever."""
    request.send_response(302)
    request.send_header("Location", request.path)
    request.end_headers()


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (lambda request: endless(request, bytes(2**20), 0), "AOTC-E330"),
        (lambda request: endless(request, b"x", 0.05), "AOTC-E331"),
        (lambda request: request.send_error(500), "AOTC-E331"),
        (elsewhere, "AOTC-E331"),
    ],
    ids=["endless", "dripping", "broken", "elsewhere"],
)
def test_a_hostile_server_is_given_up(
    how: Callable[[BaseHTTPRequestHandler], None],
    code: str,
    deployed: Deployed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_sources, "SECONDS", 2.0)
    with serving(how) as url:
        assert deployed.answer(url) == code


def test_endless_files_of_a_mirror_are_refused(deployed: Deployed) -> None:
    with (deployed.served / "timestamp.json").open("r+b") as file:
        file.truncate(2**40)
    assert deployed.answer() == "AOTC-E330"
    (deployed.served / "timestamp.json").unlink()
    os.mkfifo(deployed.served / "timestamp.json")
    assert deployed.answer() == "AOTC-E331"
    (deployed.served / "timestamp.json").unlink()
    (deployed.served / "timestamp.json").symlink_to("/dev/zero")
    assert deployed.answer() == "AOTC-E331"


def test_nothing_beside_a_mirror_is_read(deployed: Deployed) -> None:
    (deployed.folder / "secret.json").write_text("{}", "utf-8")
    mirror = metadata_sources.Mirror(deployed.served)
    with pytest.raises(DownloadError, match="no name of a file"):
        mirror.download_bytes("mirror:/..%2Fsecret.json", 100)


def test_a_mirror_that_is_not_there_is_no_answer(deployed: Deployed) -> None:
    assert deployed.answer("nowhere") == "AOTC-E331"
    assert deployed.answer("http://127.0.0.1:1/") == "AOTC-E331"


def test_the_root_that_a_policy_names_is_read(deployed: Deployed) -> None:
    assert deployed.answer(root_file="nowhere.json") == "AOTC-E330"
    other = Deployed(deployed.folder / "other")
    assert deployed.answer(root_file=str(other.first_root)) == "AOTC-E330"


# At the doors.


@pytest.fixture
def policy(digits_bundle: Bundle, deployed: Deployed) -> Path:
    """A policy that accepts the bundle, and names the channel."""
    path = deployed.folder / "trust.toml"
    stated = deployed.channel()
    path.write_text(
        digits_bundle[1].read_text()
        + "\n[channel]\n"
        + "".join(
            f"{key} = {json.dumps(getattr(stated, key))}\n" for key in stated.__struct_fields__
        )
    )
    return path


def verified(bundle: Path, policy: Path, capfd: Capture, *more: str) -> list[Answer]:
    arguments = ["verify", str(bundle), "--trust", str(policy), "--json", *more]
    return [commanded(main, arguments, capfd) for main in (toolchain, runtime_main)]


def index_of(bundle: Path) -> bytes:
    source = open_bundle(bundle)
    return bytes(source.blob(read_root(source).entry.digest) or b"")


def test_both_commands_accept_what_the_channel_names_and_nothing_else(
    digits_bundle: Bundle, deployed: Deployed, policy: Path, capfd: Capture
) -> None:
    bundle = digits_bundle[0]
    assert verified(bundle, policy, capfd, "--channel") == [("AOTC-E335", 5)] * 2
    deployed.publish(index=index_of(bundle))
    assert verified(bundle, policy, capfd, "--channel") == [READY] * 2
    deployed.publish(version="2.0.0", index=b"a fix")
    assert verified(bundle, policy, capfd, "--channel") == [("AOTC-E335", 5)] * 2
    deployed.publish("staging/digits", index=index_of(bundle))
    text = policy.read_text("utf-8").replace('"production"', '"nowhere"')
    policy.write_text(text, "utf-8")
    assert verified(bundle, policy, capfd, "--channel") == [("AOTC-E327", 5)] * 2


def test_a_load_asks_no_channel(
    digits_bundle: Bundle, deployed: Deployed, policy: Path, capfd: Capture
) -> None:
    shutil.rmtree(deployed.served)
    assert loaded(digits_bundle[0], policy) == READY
    assert verified(digits_bundle[0], policy, capfd) == [READY] * 2
    assert not (deployed.folder / "seen").exists()
    assert verified(digits_bundle[0], policy, capfd, "--channel") == [("AOTC-E330", 5)] * 2


def test_a_bundle_that_is_refused_is_asked_about_nowhere(
    digits_bundle: Bundle, deployed: Deployed, policy: Path, capfd: Capture
) -> None:
    text = policy.read_text("utf-8").replace('name = "digits"', 'name = "other"', 1)
    policy.write_text(text, "utf-8")
    assert verified(digits_bundle[0], policy, capfd, "--channel") == [("AOTC-E306", 5)] * 2
    assert not (deployed.folder / "seen").exists()


def test_policy_without_channel_asks_none(digits_bundle: Bundle, capfd: Capture) -> None:
    bundle, trust = digits_bundle
    assert verified(bundle, trust, capfd, "--channel") == [("AOTC-E309", 5)] * 2


def test_without_python_tuf_a_channel_cannot_be_asked(
    digits_bundle: Bundle, policy: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tuf.api", None)
    assert verified(digits_bundle[0], policy, capfd, "--channel") == [("AOTC-E333", 5)] * 2


@pytest.mark.parametrize(
    "line",
    ['name = "a/b"', 'name = ""', 'source = ""', 'state = ""', 'root_file = ""', 'more = "x"', ""],
)
def test_bad_channel_fails(line: str, digits_bundle: Bundle, policy: Path, capfd: Capture) -> None:
    key = line.partition(" ")[0]
    before, head, channel = policy.read_text("utf-8").partition("[channel]\n")
    kept = [each for each in channel.splitlines() if not each.startswith(f"{key or 'name'} ")]
    policy.write_text(before + head + "\n".join([line, *kept]) + "\n", "utf-8")
    assert verified(digits_bundle[0], policy, capfd) == [("AOTC-E309", 5)] * 2
