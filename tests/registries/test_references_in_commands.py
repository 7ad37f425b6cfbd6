"""Commands that look into bundles take references: they fetch what they need, and say what not; and
`aotc store`.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.cli.command_group import cli
from aotc_runtime.__main__ import main
from aotc_runtime.base.errors import IntegrityError
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.formats import oci_layout
from aotc_runtime.loader.bundle_sources import open_for_inspection
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import examine, read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.verify_bundle import accept_bundle
from aotc_serve.store import Store
from tests.registries.conftest import GOLDEN, TAG, Registry
from tests.registries.oci_server import OciServer

DIGITS = GOLDEN / "digits.aotb"


def aotc(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def document(*arguments: object) -> dict[str, Any]:
    done = aotc(*arguments, "--json")
    return json.loads(done.stdout)


@pytest.fixture
def there(registry: Registry) -> tuple[str, str]:
    """The reference of a pushed bundle by its tag, and by its digest."""
    place = registry.push(DIGITS).place
    registry.server.asked.clear()
    return f"oci://{registry.server.address}/{TAG}", str(place)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "trust.toml"
    path.write_text(policy_text("digits", [(GOLDEN / "golden.pub").read_text("utf-8")]), "utf-8")
    return path


def weights() -> set[str]:
    contents = read_unverified(open_streamed(DIGITS))[0]
    layers = (d for image in contents.targets.values() for d in image.layers)
    return {d.digest for d in layers if d.mediaType == oci_layout.WEIGHTS_TYPE}


def fetched(server: OciServer) -> set[str]:
    return {each.path.rpartition("/")[2] for each in server.asked if each.method == "GET"}


COMMANDS = {"inspect": [], "compat": [], "diff": [str(DIGITS)], "report": ["-o", "report.html"]}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("full", [False, True])
def test_weights_stay_in_the_registry_unless_they_are_asked_for(
    name: str,
    full: bool,
    server: OciServer,
    there: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    more = ["--full"] if full else []
    found = document(name, there[0], *COMMANDS[name], *more)
    assert found["weights_hashed"] is full
    assert weights() <= fetched(server) if full else not weights() & fetched(server)
    assert server.count("GET", "/manifests/1.0.0") == 1
    done = aotc(name, there[0], *COMMANDS[name], *more)
    assert f"{there[0]} is {there[1]}" in done.stderr
    assert ("weights not hashed" in done.stderr) is not full
    if name == "report":
        page = (tmp_path / "report.html").read_text("utf-8")
        assert ("not hashed" in page) is not full
        assert ("its digests were checked" in page) is full


@pytest.mark.parametrize("full", [False, True])
def test_hash_is_told(full: bool, server: OciServer, there: tuple[str, str], policy: Path) -> None:
    more = ["--full"] if full else []
    found = document("verify", there[0], "--trust", policy, *more)
    assert found["weights_hashed"] is full
    assert found["bundle"] == there[1]
    assert ("digests" in found["gates"]) is full
    assert ("digests but of weights" in found["gates"]) is not full


def test_the_runtime_alone_says_the_same(
    there: tuple[str, str], policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["verify", there[1], "--trust", str(policy), "--json"])
    alone = json.loads(capsys.readouterr().out)
    whole = document("verify", there[1], "--trust", policy)
    for each in (alone, whole):
        del each["host"]["memory_bytes"]  # what is free changes from one moment to the next
    assert alone == whole


def test_digest_policy_refuses_tag(server: OciServer, there: tuple[str, str], policy: Path) -> None:
    text = policy.read_text("utf-8")
    policy.write_text(text.replace("name =", 'references = "digest"\nname =', 1), "utf-8")
    for name in ("verify", "compat", "report"):
        found = document(name, there[0], "--trust", policy)
        assert [each["code"] for each in found["findings"]] == ["AOTC-E326"]
    assert server.asked == []
    found = document("verify", there[1], "--trust", policy)
    assert "AOTC-E326" not in str(found)


def test_untrusted_is_unfetched(server: OciServer, there: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(policy_text("digits", [LocalSigner.ephemeral().public_pem()]), "utf-8")
    found = document("compat", there[1], "--trust", path)
    assert found["exit_code"] == 5
    contents = read_unverified(open_streamed(DIGITS))[0]
    layers = {d.digest for image in contents.targets.values() for d in image.layers}
    assert not layers & fetched(server)


def test_leftovers_in_registry_are_never_used(there: tuple[str, str], policy: Path) -> None:
    """The way that loads go knows of no weights that nobody hashed."""
    read = read_policy(policy)
    with (
        open_for_inspection(there[1], None, time.time()) as found,
        pytest.raises(IntegrityError) as caught,
        accept_bundle(found.source, read, time.time()),
    ):
        pass
    assert caught.value.code == "AOTC-E202"


def test_only_weights_may_be_left(there: tuple[str, str], policy: Path) -> None:
    contents = read_unverified(open_streamed(DIGITS))[0]
    image = next(iter(contents.targets.values()))
    code = next(d for d in image.layers if d.mediaType == oci_layout.EXECUTABLE_TYPE)
    with open_for_inspection(there[1], None, 0.0) as found:
        unread = {**found.unread, code.digest: code.size}
        members = {n: v for n, v in found.source.members.items() if code.digest[7:] not in n}
        source = type(found.source)(found.source.name, members)
        verdict = examine(source, read_policy(policy), detect_all(), 0.0, None, unread)
    assert [each.code for each in verdict.findings] == ["AOTC-E202"]


def test_limits_of_a_policy_count_what_was_left(there: tuple[str, str], policy: Path) -> None:
    size = sum(len(open_streamed(DIGITS).blob(d) or b"") for d in open_streamed(DIGITS).digests())
    policy.write_text(
        policy.read_text("utf-8") + f"\n[limits]\nbundle_bytes = {size - 1}\n", "utf-8"
    )
    for more in ([], ["--full"]):
        found = document("verify", there[1], "--trust", policy, *more)
        assert "AOTC-E320" in [each["code"] for each in found["findings"]], more


@pytest.fixture
def filled(registry: Registry, tmp_path: Path) -> Path:
    """A store with one bundle, fetched into it alone."""
    place = registry.push(place="models/layers").place
    folder = tmp_path / "store"
    found = document("pull", place, "--store", folder)
    assert found["root_digest"] == place.digest and found["bundle"] == str(folder)
    return folder


def test_what_is_in_a_store_is_listed(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root,) = [each.root.digest for each in Store(filled).bundles()]
    found = document("store", "ls", "--store", filled)
    assert [each["root_digest"] for each in found["bundles"]] == [root]
    assert found["bytes"] == Store(filled).size_bytes() > 0
    assert root in aotc("store", "ls", "--store", filled).stdout
    monkeypatch.setenv("AOTC_STORE", str(filled))
    assert document("store", "ls") == found


def test_a_store_is_pruned_to_a_size(filled: Path) -> None:
    kept = document("store", "prune", "--store", filled, "--limit", "1 GiB")
    assert (kept["removed"], kept["bytes"]) == ([], Store(filled).size_bytes())
    gone = document("store", "prune", "--store", filled, "--limit", "1 KiB")
    assert (len(gone["removed"]), gone["bytes"]) == (1, 0)
    assert aotc("store", "prune", "--store", filled, "--limit", "much").exit_code == 2


def test_damage_is_removed(filled: Path) -> None:
    assert document("store", "verify", "--store", filled)["removed"] == []
    path = next((filled / "blobs" / "sha256").iterdir())
    path.chmod(0o644)
    path.write_bytes(b"other")
    found = document("store", "verify", "--store", filled)
    assert found["removed"] == [f"sha256:{path.name}"]


def test_file_is_written_out_of_a_store(filled: Path, server: OciServer, tmp_path: Path) -> None:
    place = f"oci://{server.address}/models/layers:1.0.0"
    before = server.count("GET", "/blobs/")
    document("pull", place, "--store", filled, "--layout", tmp_path / "layout")
    documents = server.count("GET", "/blobs/") - before
    document("pull", place, "--store", filled, "-o", tmp_path / "layers.aotb")
    assert server.count("GET", "/blobs/") == before + 2 * documents, "documents alone, each time"
    blob = next((tmp_path / "layout" / "blobs" / "sha256").iterdir())
    blob.chmod(0o644)
    blob.write_bytes(b"other")
    assert document("store", "verify", "--store", filled)["removed"] == []


def test_where_a_pull_goes_has_to_be_said(filled: Path, server: OciServer) -> None:
    place = f"oci://{server.address}/models/layers:1.0.0"
    assert aotc("pull", place).exit_code == 2
    assert aotc("pull", place, "-o", "a", "--layout", "b").exit_code == 2


def test_signature_is_pushed_and_no_tag_moves(
    registry: Registry, there: tuple[str, str], tmp_path: Path
) -> None:
    keys = []
    for name in ("ci", "release"):
        assert aotc("keygen", "--plain", tmp_path / name).exit_code == 0
        keys.append((tmp_path / f"{name}.pub").read_text("utf-8"))
    trust = tmp_path / "both.toml"
    trust.write_text(policy_text("digits", keys, 2, ["ci", "release"]), "utf-8")
    signed = document("sign", there[0], "--key", tmp_path / "ci.key")
    assert (signed["bundle"], signed["added"]) == (there[0], True)
    (missing,) = document("verify", there[1], "--trust", trust)["findings"]
    assert missing["code"] == "AOTC-E304"
    assert missing["found"].startswith("1: ci (") and "missing: release" in missing["found"]
    registry.push(GOLDEN / "layers.aotb", TAG)  # Another bundle has the tag now.
    assert document("sign", there[1], "--key", tmp_path / "release.key", "--trust", trust)["added"]
    assert document("verify", there[1], "--trust", trust)["ok"]
    assert document("inspect", there[0])["name"] == "layers"


def test_bundle_that_a_policy_rejects_is_not_signed(
    server: OciServer, there: tuple[str, str], tmp_path: Path
) -> None:
    assert aotc("keygen", "--plain", tmp_path / "mine").exit_code == 0
    trust = tmp_path / "trust.toml"
    trust.write_text(policy_text("digits", [LocalSigner.ephemeral().public_pem()]), "utf-8")
    found = document("sign", there[1], "--key", tmp_path / "mine.key", "--trust", trust)
    assert (found["ok"], found["findings"][0]["code"]) == (False, "AOTC-E302")
    assert found["findings"][0]["where"].startswith(there[1])
    trust.write_text(f'references = "digest"\n{trust.read_text("utf-8")}', "utf-8")
    found = document("sign", there[0], "--key", tmp_path / "mine.key", "--trust", trust)
    assert found["findings"][0]["code"] == "AOTC-E326"
    assert not [each for each in server.asked if each.method != "GET"]
