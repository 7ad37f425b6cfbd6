"""Bundles of a registry that a channel names: `aotc pull --channel`, `aotc verify --channel`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from aotc.cli.group import cli
from aotc.signing.trust_file import policy_text
from aotc.workshops.registries.push import push
from aotc_runtime.__main__ import main
from aotc_runtime.system.passing import look_into
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.contents import read_root
from tests.hostile.channels import Deployed, ago, serving
from tests.registries.conftest import GOLDEN, Connect
from tests.registries.oci_server import OciServer

DIGITS = GOLDEN / "digits.aotb"
READY = "ready"


def index_of(bundle: Path) -> bytes:
    source = open_bundle(bundle)
    return bytes(source.blob(read_root(source).entry.digest) or b"")


class Host:
    """A host that pulls a bundle by its tag, and verifies it where it is, by a policy with a
    channel. channel: the files that whoever serves it may change.
    """

    def __init__(self, folder: Path, server: OciServer) -> None:
        self.channel, self.server = Deployed(folder / "deployed"), server
        self.output = folder / "digits.aotb"
        self.trust = self.channel.folder / "trust.toml"
        self.ask_at("channel")

    @property
    def reference(self) -> str:
        return f"oci://{self.server.address}/models/digits:1.0.0"

    def ask_at(self, source: str) -> None:
        stated = self.channel.channel(source)
        lines = [f"{key} = {json.dumps(getattr(stated, key))}" for key in stated.__struct_fields__]
        text = policy_text("digits", [(GOLDEN / "golden.pub").read_text("utf-8")])
        self.trust.write_text("\n".join([text, "[channel]", *lines, ""]), "utf-8")

    def pull(self, *more: str) -> str:
        self.output.unlink(missing_ok=True)
        self.server.asked.clear()
        command = ["pull", self.reference, "--trust", str(self.trust), "-o", str(self.output)]
        done = CliRunner().invoke(cli, [*command, "--json", *more])
        if done.exit_code:
            assert not self.output.exists()
            assert done.exit_code == 5, done.output
            found: str = json.loads(done.stdout)["findings"][0]["code"]
            return found
        assert self.output.exists()
        return READY

    def verify(self, capfd: pytest.CaptureFixture[str]) -> list[str]:
        """By both commands, from the registry; what the golden bundle lacks here is not asked."""
        command = ["verify", self.reference, "--trust", str(self.trust), "--channel", "--json"]
        one = CliRunner().invoke(cli, command).stdout
        capfd.readouterr()
        main(command)
        return [_channel_code(one), _channel_code(capfd.readouterr().out)]

    def answers(self, capfd: pytest.CaptureFixture[str]) -> list[str]:
        return [self.pull("--channel"), *self.verify(capfd)]


def _channel_code(text: str) -> str:
    document = json.loads(text)
    codes = [each["code"] for each in document.get("findings", ())]
    return codes[0] if codes else READY if "channel" in document["gates"] else "not asked"


@pytest.fixture
def host(tmp_path: Path, server: OciServer, connect: Connect) -> Host:
    with connect("models/digits") as there:
        push(look_into(DIGITS), there, None, 0.0)
    return Host(tmp_path, server)


def test_what_the_channel_names_is_pulled_and_nothing_else(host: Host, capfd) -> None:
    host.channel.publish()
    assert host.answers(capfd) == ["AOTC-E335"] * 3
    assert host.pull("--channel") == "AOTC-E335"
    assert not any("blobs" in each.path and _large(each.path) for each in host.server.asked)
    host.channel.publish(index=index_of(DIGITS))
    assert host.answers(capfd) == [READY] * 3
    host.channel.publish(version="2.0.0", index=b"a fix")
    assert host.answers(capfd) == ["AOTC-E335"] * 3
    host.channel.publish(index=index_of(DIGITS))
    assert host.answers(capfd) == [READY] * 3


def _large(path: str) -> bool:
    source = open_bundle(DIGITS)
    data = source.blob(path.rpartition("/")[2])
    return data is not None and len(data) > 100_000


def test_older_metadata_are_refused_after_newer_ones(host: Host, capfd) -> None:
    host.channel.publish(index=index_of(DIGITS))
    old = host.channel.kept("old")
    assert host.answers(capfd) == [READY] * 3
    host.channel.publish(version="2.0.0", index=b"a fix")
    assert host.pull("--channel") == "AOTC-E335"
    shutil.rmtree(host.channel.served)
    shutil.copytree(old, host.channel.served)
    assert host.answers(capfd) == ["AOTC-E328"] * 3


def test_metadata_that_nobody_renews_are_refused_once_they_end(host: Host, capfd) -> None:
    host.channel.publish(index=index_of(DIGITS), when=ago(days=8))
    assert host.answers(capfd) == ["AOTC-E329"] * 3
    host.channel.renew()
    assert host.answers(capfd) == [READY] * 3


def test_files_of_several_states_are_refused(host: Host, capfd) -> None:
    host.channel.publish(index=index_of(DIGITS))
    old = host.channel.kept("old")
    host.channel.publish(version="2.0.0", index=b"a fix")
    newest = max(
        host.channel.served.glob("*.targets.json"), key=lambda each: int(each.name.split(".")[0])
    )
    before = max(old.glob("*.targets.json"), key=lambda each: int(each.name.split(".")[0]))
    shutil.copyfile(before, newest)
    assert host.answers(capfd) == ["AOTC-E330"] * 3


def test_a_channel_that_is_served_refuses_the_same(host: Host, capfd) -> None:
    def answer(request) -> None:
        file = host.channel.served / request.path.rpartition("/")[2]
        request.send_response(200 if file.exists() else 404)
        request.end_headers()
        if file.exists():
            request.wfile.write(file.read_bytes())

    with serving(answer) as url:
        host.ask_at(url)
        host.channel.publish(index=index_of(DIGITS))
        old = host.channel.kept("old")
        assert host.answers(capfd) == [READY] * 3
        host.channel.publish(index=index_of(DIGITS), version="1.0.1")
        assert host.answers(capfd) == [READY] * 3
        shutil.rmtree(host.channel.served)
        shutil.copytree(old, host.channel.served)
        assert host.answers(capfd) == ["AOTC-E328"] * 3
    assert host.answers(capfd) == ["AOTC-E331"] * 3


def test_without_the_word_no_channel_is_asked(host: Host) -> None:
    shutil.rmtree(host.channel.served)
    assert host.pull() == READY
    assert not (host.channel.folder / "seen").exists()


def test_a_channel_needs_a_policy_that_names_one(host: Host, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["pull", host.reference, "--channel", "-o", str(host.output)])
    assert done.exit_code == 2 and "--trust" in done.output
    text = host.trust.read_text("utf-8").partition("[channel]")[0]
    host.trust.write_text(text, "utf-8")
    assert host.pull("--channel") == "AOTC-E309"
