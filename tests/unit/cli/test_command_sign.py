"""`aotc sign`: several signers, both forms, and files that keep all but what a signature adds."""

import fcntl
import json
import os
import pty
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from tests.conftest import Bundle, Run
from tests.waiting import said_at, started

SIGNER = """
import os
from pathlib import Path
from aotc.bundle.sign.signer import load_signer

class open_key:
    def __init__(self, uri, ask):
        self.signer = load_signer(Path(uri.partition(":")[2]), None)
        if os.environ.get("ELSEWHERE") == "down":
            raise TimeoutError("elsewhere does not answer")
        if os.environ.get("ELSEWHERE") == "locked" and ask("word for elsewhere") != "sesame":
            raise PermissionError("another word")
    def public_key(self):
        return self.signer.public_pem()
    def sign(self, message):
        if "INSTEAD" in os.environ:
            Path("b").rename("before")
            Path(os.environ["INSTEAD"]).rename("b")
        return self.signer.sign(message)
"""


@pytest.fixture(params=["archive", "folder"])
def bundle(request: pytest.FixtureRequest, digits_bundle: Bundle, tmp_path: Path) -> Path:
    """A bundle in one of its two forms, to be changed; called b."""
    if request.param == "archive":
        return Path(shutil.copyfile(digits_bundle[0], tmp_path / "b"))
    with tarfile.open(digits_bundle[0]) as archive:
        archive.extractall(tmp_path / "b", filter="data")
    return tmp_path / "b"


@pytest.fixture
def archive(digits_bundle: Bundle, tmp_path: Path) -> Path:
    """The same in a file: for keys and questions, which are those of a folder, too."""
    return Path(shutil.copyfile(digits_bundle[0], tmp_path / "b"))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that serves the scheme elsewhere:, installed as pip would."""
    info = tmp_path / "site" / "elsewhere-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[aotc.signers]\nelsewhere = elsewhere_kms:open_key\n")
    (tmp_path / "site" / "elsewhere_kms.py").write_text(SIGNER)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    sys.modules.pop("elsewhere_kms", None)


def content(bundle: Path) -> dict[str, bytes]:
    return {name: bytes(data) for name, data in open_bundle(bundle).members.items()}


def attestations(bundle: Path) -> int:
    return len(read_root(open_bundle(bundle)).attestations)


def modes(bundle: Path) -> dict[str, int]:
    paths = [bundle, *bundle.rglob("*")]
    found = {str(path.relative_to(bundle)): path.stat().st_mode for path in paths}
    return {name: stat.S_IMODE(mode) for name, mode in found.items()}


# As tokens do, which draw a random number for each signature.
RANDOM = SIGNER.replace(
    "return self.signer.sign(message)",
    "from cryptography.hazmat.primitives import hashes\n"
    "        from cryptography.hazmat.primitives.asymmetric import ec\n"
    "        return self.signer.key.sign(message, ec.ECDSA(hashes.SHA256()))",
)


@pytest.mark.parametrize(
    ("kind", "key"),
    [("ed25519", "k.key"), ("ecdsa-p256", "k.key"), ("ecdsa-p256", "elsewhere:k.key")],
)
def test_a_key_signs_once_and_changes_nothing_but_the_index(
    aotc: Run, bundle: Path, elsewhere: None, tmp_path: Path, kind: str, key: str
) -> None:
    (tmp_path / "site" / "elsewhere_kms.py").write_text(RANDOM)
    aotc("keygen", "k", "--plain", "--type", kind)
    before, count = content(bundle), attestations(bundle)
    assert aotc("sign", "b", "--key", key, "--json").document["added"] is True
    after, status = content(bundle), bundle.stat()
    assert attestations(bundle) == count + 1 and before.keys() < after.keys()
    assert {name for name in before if after[name] != before[name]} == {"index.json"}
    assert aotc("sign", "b", "--key", key, "--json").document["added"] is False
    assert "nothing added" in aotc("sign", "b", "--key", key).stdout
    assert content(bundle) == after
    assert bundle.stat().st_ino == status.st_ino, "not written again"


@pytest.fixture
def as_user(tmp_path: Path) -> Run:
    """The command in a process that permissions hold for, as they do not for root."""
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    prefix = drop if os.geteuid() == 0 else []
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv to give up its rights")

    def run(*arguments: str) -> dict[str, Any]:
        program = [sys.executable, "-c", "from aotc.cli.main import main; main()"]
        command = [*prefix, *program, *arguments, "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


def test_read_only_bundle_is_signed_cleanly(aotc: Run, as_user: Run, bundle: Path) -> None:
    aotc("keygen", "k", "--plain")
    for path in (*bundle.rglob("*"), bundle):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before, count = modes(bundle), attestations(bundle)
    assert as_user("sign", "b", "--key", "k.key")["ok"]
    after = modes(bundle)
    assert attestations(bundle) == count + 1
    assert {name: after[name] for name in before} == before
    assert sorted(path.name for path in bundle.parent.iterdir()) == ["b", "k.key", "k.pub"]
    for path in (bundle, *bundle.rglob("*")):
        path.chmod(0o755)  # for whoever clears up


def test_read_only_folder_is_one_finding(aotc: Run, as_user: Run, bundle: Path) -> None:
    aotc("keygen", "k", "--plain")
    aotc("keygen", "other", "--plain")
    aotc("sign", "b", "--key", "k.key")
    before = content(bundle)
    bundle.parent.chmod(0o555)
    try:
        again = as_user("sign", "b", "--key", "k.key")
        refused = as_user("sign", "b", "--key", "other.key")
    finally:
        bundle.parent.chmod(0o755)
    assert again["ok"]
    assert [finding["code"] for finding in refused["findings"]] == ["AOTC-E003"]
    assert content(bundle) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_files_keep_their_owner(aotc: Run, bundle: Path) -> None:
    aotc("keygen", "k", "--plain")
    for path in (bundle, *bundle.rglob("*")):
        os.chown(path, 65534, 65533)
    before = {path.name for path in (bundle, *bundle.rglob("*"))}
    aotc("sign", "b", "--key", "k.key")
    kept = [path for path in (bundle, *bundle.rglob("*")) if path.name in before]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in kept} == {(65534, 65533)}


def test_plug_in_signs_bundles(aotc: Run, refused: Run, archive: Path, elsewhere: None) -> None:
    key_id = aotc("keygen", "k", "--plain", "--json").document["key_id"]
    aotc("trust", "init", "--key", "k.pub", "--name", "digits")
    assert aotc("sign", "b", "--key", "elsewhere:k.key", "--json").document["key_id"] == key_id
    assert aotc("verify", "b", "--trust", "trust.toml").exit_code == 0


def test_a_signer_that_fails_leaves_the_bundle_alone(
    aotc: Run, refused: Run, bundle: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    aotc("keygen", "k", "--plain")
    before = content(bundle)
    monkeypatch.setenv("ELSEWHERE", "down")
    done = refused(["sign", "b", "--key", "elsewhere:k.key"], 2, "AOTC-E016")
    assert "TimeoutError: elsewhere does not answer" in done.stderr
    assert "Traceback" in aotc("sign", "b", "--key", "elsewhere:k.key", "-v").stderr
    refused(["sign", "b", "--key", "elsewhere:gone"], 2, "AOTC-E006")
    refused(["sign", "b", "--key", "nowhere:k"], 2, "AOTC-E022")
    refused(["sign", "b", "--key", "pkcs11:token=t"], 2, "AOTC-E017")
    assert content(bundle) == before


def test_what_took_the_place_of_a_bundle_while_it_was_signed_is_left_alone(
    aotc: Run, bundle: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A signature of another bundle's statement is refused by every policy."""
    aotc("keygen", "k", "--plain")
    another = Path(__file__).parents[2] / "golden" / "layers.aotb"
    if bundle.is_dir():
        with tarfile.open(another) as archive:
            archive.extractall(tmp_path / "another", filter="data")
    else:
        shutil.copyfile(another, tmp_path / "another")
    before = content(tmp_path / "another")
    monkeypatch.setenv("INSTEAD", "another")
    done = aotc("sign", "b", "--key", "elsewhere:k.key")
    assert (done.exit_code, done.codes) == (5, ["AOTC-E201"])
    assert "find out who replaced it" in done.stderr
    assert content(tmp_path / "b") == before


def test_a_build_asks_its_signer_before_it_does_anything(
    aotc: Run, refused: Run, elsewhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    aotc("keygen", "k", "--plain")
    monkeypatch.setenv("ELSEWHERE", "down")
    refused(["build", "no-manifest.toml", "--key", "elsewhere:k.key"], 2, "AOTC-E016")
    refused(["build", "no-manifest.toml", "--key", "nowhere:k.key"], 2, "AOTC-E022")


def test_uri_like_file_name_needs_its_folder(aotc: Run, refused: Run, archive: Path) -> None:
    aotc("keygen", "ci:2026", "--plain")
    done = refused(["sign", "b", "--key", "ci:2026.key"], 2, "AOTC-E022")
    assert "./ci:" in done.stderr
    assert aotc("sign", "b", "--key", "./ci:2026.key").exit_code == 0


def at_a_terminal(
    folder: Path, typed: bytes, *arguments: str, files: Sequence[int] = (), **variables: str
) -> tuple[int, bytes]:
    """Run a command whose terminal is ours, and type once it asks: exit code, terminal's text.

    files: descriptors that it has, too.  variables: of its environment.
    """
    master, slave = pty.openpty()
    path = [str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(path)}
    with started(
        [sys.executable, "-c", "from aotc.cli.main import main; main()", *arguments],
        cwd=folder,
        env=environment,
        stdin=slave,
        stdout=subprocess.DEVNULL,
        stderr=slave,
        start_new_session=True,
        pass_fds=files,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(slave)
        text = b""
        for data in said_at(master):
            asks = re.compile(rb"(word for|passphrase of) \S+: ")
            if asks.search(text + data) and not asks.search(text):
                os.write(master, typed)
            text += data
    os.close(master)
    return process.returncode, text


@pytest.mark.parametrize(
    ("typed", "exit_code", "shown"),
    [
        (b"sesame\n", 0, b""),
        (b"wrong\n", 2, b"PermissionError: another word"),
        (b"\x03", 130, b"aborted"),
        (b"\x04", 130, b"aborted"),
    ],
    ids=["right", "wrong", "Ctrl-C", "Ctrl-D"],
)
def test_a_signer_may_ask_at_the_terminal(
    aotc: Run, archive: Path, elsewhere: None, typed: bytes, exit_code: int, shown: bytes
) -> None:
    aotc("keygen", "k", "--plain")
    before = attestations(archive)
    signing = ("sign", "b", "--key", "elsewhere:k.key")
    code, text = at_a_terminal(archive.parent, typed, *signing, ELSEWHERE="locked")
    assert (code, shown in text) == (exit_code, True)
    assert b"sesame" not in text
    assert attestations(archive) - before == (exit_code == 0)


def test_without_a_terminal_nobody_is_asked(
    aotc: Run, refused: Run, archive: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELSEWHERE", "locked")
    aotc("keygen", "k", "--plain")
    done = refused(["sign", "b", "--key", "elsewhere:k.key"], 2, "AOTC-E016")
    assert "PermissionError: another word" in done.stderr and "word for" not in done.stderr
    (archive.parent / "secret").write_bytes(b"sesame")
    aotc("keygen", "locked", "--passphrase-file", "secret")
    done = refused(["sign", "b", "--key", "locked.key"], 2, "AOTC-E007")
    assert "passphrase of locked" not in done.stderr


@pytest.mark.parametrize(
    ("typed", "variable", "exit_code", "asked"),
    [
        (b"sesame\n", "", 0, True),
        (b"wrong\n", "", 2, True),
        (b"\x04", "", 130, True),
        (b"wrong\n", "sesame", 0, False),
        (b"sesame\n", "wrong", 2, False),
    ],
    ids=["right", "wrong", "Ctrl-D", "variable", "wrong variable"],
)
def test_the_passphrase_of_a_key_is_asked_for_at_a_terminal_unless_it_is_given(
    aotc: Run, archive: Path, typed: bytes, variable: str, exit_code: int, asked: bool
) -> None:
    (archive.parent / "secret").write_bytes(b"sesame")
    aotc("keygen", "k", "--passphrase-file", "secret")
    before, given = attestations(archive), {"AOTC_KEY_PASSPHRASE": variable} if variable else {}
    code, text = at_a_terminal(archive.parent, typed, "sign", "b", "--key", "k.key", **given)
    assert (code, b"passphrase of k.key: " in text) == (exit_code, asked)
    assert b"sesame" not in text
    assert attestations(archive) - before == (exit_code == 0)


@pytest.mark.parametrize("place", ["file", "pipe"])
def test_plain_key_is_read_once_without_passphrase(aotc: Run, archive: Path, place: str) -> None:
    aotc("keygen", "k", "--plain")
    reading, writing = os.pipe()
    os.write(writing, (archive.parent / "k.key").read_bytes())
    os.close(writing)
    key = "k.key" if place == "file" else f"/dev/fd/{reading}"
    signing = ("sign", "b", "--key", key)
    code, text = at_a_terminal(archive.parent, b"wrong\n", *signing, files=[reading])
    os.close(reading)
    assert (code, b"passphrase" in text) == (0, False), text


def test_unlistable_folder_is_refused(digits_bundle: Bundle, as_user: Run, tmp_path: Path) -> None:
    """Neither as a bundle that was changed, nor, for a folder more, as if it were not there."""
    for name, inside in (("b", "blobs"), ("c", "more")):
        with tarfile.open(digits_bundle[0]) as archive:
            archive.extractall(tmp_path / name, filter="data")
        locked = tmp_path / name / inside
        locked.mkdir(exist_ok=True)
        locked.chmod(0)
        try:
            (finding,) = as_user("inspect", name)["findings"]
        finally:
            locked.chmod(0o755)
        assert (finding["code"], finding["found"]) == ("AOTC-E108", "Permission denied")
        assert finding["where"] == f"{name} {inside}"


def test_signing_says_what_is_signed_and_who_has_signed_before(aotc: Run, archive: Path) -> None:
    for name in ("a", "c"):
        aotc("keygen", name, "--plain")
    first = aotc("sign", "b", "--key", "a.key", "--json").document
    assert (first["name"], first["version"]) == ("digits", "1.0.0")
    assert len(first["earlier_signers"]) == 1 and first["earlier_verified"] is False, "the build's"
    second = aotc("sign", "b", "--key", "c.key")
    assert "digits 1.0.0, sha256:" in second.stdout
    assert first["key_id"][:16] in second.stdout and "not verified" in second.stdout
    again = aotc("sign", "b", "--key", "c.key", "--json").document
    assert {first["key_id"], again["key_id"]} < {*again["earlier_signers"]}


def test_release_policy_is_ready(aotc: Run, refused: Run, archive: Path, tmp_path: Path) -> None:
    for name in ("build", "release", "stranger"):
        aotc("keygen", name, "--plain")
    keys = ["--key", "build.pub", "--key", "release.pub"]
    aotc("trust", "init", *keys, "--threshold", "2", "--name", "digits")
    aotc("trust", "init", *keys, "--name", "other", "-o", "other.toml")
    signing = ["sign", "b", "--key", "release.key", "--trust"]
    count = attestations(archive)
    refused([*signing, "trust.toml"], 5, "AOTC-E302")  # by nobody whom the policy knows
    aotc("sign", "b", "--key", "stranger.key")
    refused([*signing, "trust.toml"], 5, "AOTC-E302")
    aotc("sign", "b", "--key", "build.key")
    refused([*signing, "other.toml"], 5, "AOTC-E306")
    refused(["sign", "b", "--key", "stranger.key", "--trust", "trust.toml"], 5, "AOTC-E304")
    assert attestations(archive) == count + 2, "what was refused has signed nothing"
    done = aotc(*signing, "trust.toml", "--json").document
    build = aotc("sign", "b", "--key", "build.key", "--json").document["key_id"]
    assert (done["earlier_signers"], done["earlier_verified"]) == ([build], True)
    assert aotc("verify", "b", "--trust", "trust.toml").exit_code == 0


@pytest.mark.parametrize(("mode", "told"), [(0o600, False), (0o400, False), (0o640, True),
                                            (0o604, True), (0o666, True)])  # fmt: skip
def test_shared_key_noted(aotc: Run, archive: Path, tmp_path: Path, mode: int, told: bool) -> None:
    aotc("keygen", "k", "--plain")
    (tmp_path / "k.key").chmod(mode)
    done = aotc("sign", "b", "--key", "k.key", "--json")
    assert (done.exit_code, done.document["added"]) == (0, True)
    assert (f"note: k.key has mode {mode:04o}: others may use it" in done.stderr) is told
    (tmp_path / "k.key").chmod(0o600)


@pytest.mark.parametrize("text", ["{one}{other}", "key of release\n{one}", "{one}the end\n"])
def test_key_and_more(aotc: Run, refused: Run, archive: Path, tmp_path: Path, text: str) -> None:
    for name in ("one", "other"):
        aotc("keygen", name, "--plain")
    keys = {name: (tmp_path / f"{name}.key").read_text() for name in ("one", "other")}
    (tmp_path / "k.key").write_text(text.format(**keys))
    (tmp_path / "k.key").chmod(0o600)
    refused(["sign", "b", "--key", "k.key"], 2, "AOTC-E006")


def test_run_refuses_a_reference_and_says_how_to_fetch_it(refused: Run) -> None:
    place = "oci://registry.example.org/models/digits:1.0.0"
    said = refused(["run", place, "--trust", "trust.toml"], 2, "AOTC-E001").stderr
    assert f"`aotc pull {place} -o FILE`" in said
