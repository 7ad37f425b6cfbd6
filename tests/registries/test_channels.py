"""Bundles of a registry that a channel names: `aotc pull --channel`, `aotc verify --channel`."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from aotc.bundle.trust.trust_text import policy_text
from aotc.cli.command_group import cli
from aotc.commands.registry.bundle_push import push
from aotc_runtime.__main__ import main
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import read_root
from tests.hostile.channels import Deployed, ago, files_of, serving
from tests.hostile.doors import Capture
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
            return json.loads(done.stdout)["findings"][0]["code"]
        assert self.output.exists()
        return READY

    def verify(self, capfd: Capture) -> list[str]:
        """By both commands, from the registry; what the golden bundle lacks here is not asked."""
        command = ["verify", self.reference, "--trust", str(self.trust), "--channel", "--json"]
        one = CliRunner().invoke(cli, command).stdout
        capfd.readouterr()
        main(command)
        return [_channel_code(one), _channel_code(capfd.readouterr().out)]

    def answers(self, capfd: Capture) -> list[str]:
        return [self.pull("--channel"), *self.verify(capfd)]


def _channel_code(text: str) -> str:
    document = json.loads(text)
    codes = [each["code"] for each in document.get("findings", ())]
    return codes[0] if codes else READY if "channel" in document["gates"] else "not asked"


@pytest.fixture(params=["mirror", "server"])
def host(
    request: pytest.FixtureRequest, tmp_path: Path, server: OciServer, connect: Connect
) -> Iterator[Host]:
    """It reads the channel's files in a folder, or asks a server for them."""
    with connect("models/digits") as there:
        push(open_streamed(DIGITS), there, None, 0.0)
    host = Host(tmp_path, server)
    if request.param == "mirror":
        host.ask_at("channel")
        yield host
        return
    with serving(files_of(host.channel)) as url:
        host.ask_at(url)
        yield host


def test_what_the_channel_names_is_pulled_and_nothing_else(host: Host, capfd: Capture) -> None:
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


def goes_back(host: Host) -> None:
    old = host.channel.kept("old")
    host.channel.publish(version="2.0.0", index=b"a fix")
    assert host.pull("--channel") == "AOTC-E335"
    shutil.rmtree(host.channel.served)
    shutil.copytree(old, host.channel.served)


def mixes_states(host: Host) -> None:
    """An older file under the newest one's name, which names what is deployed no more."""

    def newest() -> Path:
        files = host.channel.served.glob("*.targets.json")
        return max(files, key=lambda each: int(each.name.partition(".")[0]))

    older = newest().read_bytes()
    host.channel.publish(version="2.0.0", index=b"a fix")
    newest().write_bytes(older)


def is_another_channel(host: Host) -> None:
    other = Deployed(host.channel.folder / "other")
    for _ in range(3):
        other.publish(index=index_of(DIGITS))
    shutil.copy(other.served / "timestamp.json", host.channel.served)


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (goes_back, "AOTC-E328"),
        (lambda host: host.channel.renew(when=ago(days=8)), "AOTC-E329"),
        (mixes_states, "AOTC-E330"),
        (is_another_channel, "AOTC-E330"),
        (lambda host: host.ask_at("nowhere"), "AOTC-E331"),
    ],
    ids=["older", "expired", "of several states", "of another", "silent"],
)
def test_what_a_channel_may_not_say_is_refused_at_every_door(
    attack: Callable[[Host], None], code: str, host: Host, capfd: Capture
) -> None:
    """Also by a host that believed it a moment ago."""
    host.channel.publish(index=index_of(DIGITS))
    assert host.answers(capfd) == [READY] * 3
    attack(host)
    assert host.answers(capfd) == [code] * 3


def test_a_bundle_without_any_target_is_not_what_a_channel_names(host: Host) -> None:
    host.channel.publish(index=index_of(DIGITS))
    images = {entry["digest"] for entry in json.loads(index_of(DIGITS))["manifests"]}
    for place in [each for each in host.server.manifests if each[1] in images]:
        del host.server.manifests[place]
    assert host.pull("--channel") == "AOTC-E327"


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
