"""A load of a reference fetches the one target that it takes, and knows it without a registry."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hostile.tampering import Documents, digest_of, in_memory, signed, take_apart

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.__main__ import main
from aotc_runtime.base.errors import RegistryError, ResourceError, TrustError
from aotc_runtime.formats.oci_layout import INDEX_TYPE, WEIGHTS_TYPE
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.oci.registry_listing import target_name
from aotc_serve.store import Store, reference_loading
from tests.conftest import MANIFESTS, Bundle, Once
from tests.e2e.small_programs import build_trusted
from tests.registries.conftest import REPO, Registry, refused
from tests.registries.faults import always, status
from tests.registries.oci_server import OciServer

TARGETS = ("cpu-x86-64-v2", "cpu-x86-64-v3")


@pytest.fixture(scope="module")
def two(once: Once) -> Bundle:
    """A bundle of two targets that this host runs, and a policy."""

    def fill(folder: Path) -> None:
        build_trusted(MANIFESTS / "digits.toml", folder / "two.aotb", targets=TARGETS)

    folder = once("two-targets", fill)
    return folder / "two.aotb", folder / "trust.toml"


@dataclass(frozen=True, slots=True)
class Loading:
    """A bundle of two targets in a registry, a policy, and a store. best: the target that this host
    takes; other: the one that it could.
    """

    server: OciServer
    bundle: Path
    policy: Path
    place: str
    best: str
    other: str
    store: Path

    def load(self, **more: Any) -> str:
        """The target that is loaded."""
        given = {"trust": self.policy, "store": self.store, **more}
        with aotc_runtime.load(self.place, **given) as bundle:
            return str(bundle.report()["target"])

    def layers(self, *targets: str) -> set[str]:
        images = read_unverified(open_streamed(self.bundle))[0].targets
        return {layer.digest for target in targets for layer in images[target].layers}

    @property
    def fetched(self) -> set[str]:
        """Layers of the bundle that were asked for, of which none may be twice."""
        asked = [a.path.rpartition("/")[2] for a in self.server.asked if a.method == "GET"]
        found = [digest for digest in asked if digest in self.layers(*TARGETS)]
        assert len(found) == len(set(found))
        return set(found)

    def stating(self, text: str) -> Path:
        """The policy with more in it."""
        path = self.store.with_name("more.toml")
        more = self.policy.read_text("utf-8").replace("name =", f"{text}\nname =", 1)
        path.write_text(more, "utf-8")
        return path

    def by_a_stranger(self) -> Path:
        """A policy that does not trust the bundle."""
        path = self.store.with_name("stranger.toml")
        path.write_text(policy_text("digits", [LocalSigner.ephemeral().public_pem()]), "utf-8")
        return path


@pytest.fixture
def loading(two: Bundle, registry: Registry, tmp_path: Path) -> Loading:
    with aotc_runtime.load(two[0], trust=two[1]) as bundle:
        best = str(bundle.report()["target"])
    (other,) = set(TARGETS) - {best}
    place = str(registry.push(two[0]).place)
    return Loading(registry.server, *two, place, best, other, tmp_path / "store")


def test_a_load_fetches_the_target_that_it_takes_and_no_other(loading: Loading) -> None:
    with aotc_runtime.load(loading.place, trust=loading.policy, store=loading.store) as bundle:
        report = bundle.report()
    assert (report["target"], report["target_reason"]["absent"]) == (loading.best, [loading.other])
    assert loading.fetched == loading.layers(loading.best) < loading.layers(*TARGETS)
    asked = len(loading.server.asked)
    assert loading.load() == loading.best
    assert len(loading.server.asked) == asked, "what is there is not asked for"
    loading.server.close()
    Store(loading.store).prune(2**40)
    assert loading.load() == loading.best


def test_partial_copy_may_be_absent(loading: Loading, registry: Registry, tmp_path: Path) -> None:
    server, digest = registry.server, loading.place.partition("@")[2]
    root, part = f"/manifests/{digest}", tmp_path / "part.aotb"
    assert server.count("GET", root) == 0, "nobody asks about what is whole"
    registry.pull(part, targets=TARGETS[:1])
    for each in json.loads(server.manifests["models/digits", digest][0])["manifests"]:
        image = server.manifests["models/digits", each["digest"]]
        server.manifests["models/another", each["digest"]] = image
    registry.push(part, "models/another")
    assert ("models/another", digest) in server.manifests
    server.faults.append(always(status(400), "PUT", root))
    registry.push(part)  # the root is there, with its other target
    for path, told in ((part, "no "), (loading.bundle, "HTTP 400")):
        assert told in refused(registry.push, path, "models/third", kind=RegistryError).found


def test_named_target_is_fetched_and_missing_blobs_later(loading: Loading) -> None:
    loading.load(target=loading.other)
    assert loading.fetched == loading.layers(loading.other)
    assert loading.load() == loading.best
    assert loading.fetched == loading.layers(*TARGETS)


def test_without_a_registry_another_target_is_better_than_none(loading: Loading) -> None:
    loading.load(target=loading.other)
    loading.server.password = "me:secret"
    assert refused(loading.load, kind=RegistryError).code == "AOTC-E773", "which refuses"
    loading.server.close()
    assert loading.load() == loading.other


def test_where_nothing_fits_nothing_is_fetched(loading: Loading) -> None:
    with pytest.raises(ResourceError) as caught:
        loading.load(memory_limit=1)
    assert [f.code for f in caught.value.findings] == ["AOTC-E551"] * len(TARGETS)
    assert loading.fetched == set()


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ('minimum_version = "9.0.0"', "AOTC-E307"),
        ("limits = { blob_bytes = 1000 }", "AOTC-E320"),
        ('engines = ["iree"]', "AOTC-E322"),
        ('accepts.jaxlib = ["0.1"]', "AOTC-E318"),
    ],
)
def test_what_the_policy_refuses_is_not_fetched(rule: str, code: str, loading: Loading) -> None:
    policy = loading.stating(rule)
    for use in (aotc_runtime.load, aotc_runtime.verify)[: 2 if code == "AOTC-E320" else 1]:
        told = refused(use, loading.place, trust=policy, store=loading.store, kind=TrustError)
        assert told.code == code
    assert loading.fetched == set()


def test_untrusted_bundle_asks_no_engine(loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr("aotc_runtime.engines.engine_registry.prepare", ask)
    for policy in (loading.by_a_stranger(), loading.stating('minimum_version = "9.0.0"')):
        refused(loading.load, trust=policy, kind=TrustError)
    with pytest.raises(AssertionError, match="asked"):
        loading.load()


def inconsistent(documents: Documents) -> None:
    documents.manifest["entry_points"]["predict"]["profiles"][0]["sizes"] = {"other": 1}


def with_a_layer_of_its_own(documents: Documents) -> None:
    other = {**documents.image["layers"][0], "digest": digest_of(b"x"), "size": 1}
    documents.image["layers"].append(other)
    documents.image["layers"].sort(key=lambda layer: layer["digest"])
    documents.layers[digest_of(b"x")] = b"x"


@pytest.mark.parametrize("damage", [inconsistent, with_a_layer_of_its_own])
def test_what_contradicts_itself_is_not_fetched(
    damage: Callable[[Documents], None], loading: Loading, tmp_path: Path
) -> None:
    signer, server = LocalSigner.ephemeral(), loading.server
    documents = take_apart(in_memory(loading.bundle))
    damage(documents)
    bundle = signed(documents, signer)
    for digest, data in bundle.blobs.items():
        server.blobs[REPO, digest] = data
        if data.startswith(b"{"):
            server.manifests[REPO, digest] = (data, json.loads(data).get("mediaType"))
    entries = json.loads(bundle.files["index.json"])["manifests"]
    (root,) = (each["digest"] for each in entries if each["mediaType"] == INDEX_TYPE)
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("digits", [signer.public_pem()]), "utf-8")
    place = f"oci://{server.address}/{REPO}@{root}"
    told = refused(aotc_runtime.load, place, trust=policy, store=loading.store)
    assert told.code in ("AOTC-E118", "AOTC-E205")
    assert loading.fetched == set()


def test_verified_for_load_is_fetched_whole(loading: Loading, tmp_path: Path) -> None:
    given = {"trust": loading.policy, "target": loading.best}
    aotc_runtime.verify(loading.place, store=tmp_path / "one", **given)
    assert loading.fetched == loading.layers(loading.best)
    loading.server.asked.clear()
    aotc_runtime.verify(loading.place, store=tmp_path / "all", trust=loading.policy)
    assert loading.fetched == loading.layers(*TARGETS)


def verdict(
    loading: Loading, policy: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> dict[str, Any]:
    """Return what the runtime's command says."""
    code = main(["verify", loading.place, "--trust", str(policy), "--json", *more])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found.get("exit_code", 0) == code
    return found


def test_verdict_keeps_load_blobs(loading: Loading, capsys: pytest.CaptureFixture[str]) -> None:
    keeping = loading.policy, capsys, "--store", str(loading.store)
    found = verdict(loading, *keeping)
    assert (found["bundle"], found["target"]) == (loading.place, loading.best)
    assert found["weights_hashed"] and "digests" in found["gates"]
    assert loading.fetched == loading.layers(loading.best)
    loading.server.close()
    assert verdict(loading, *keeping)["ok"]
    assert loading.load() == loading.best
    images = read_unverified(open_streamed(loading.bundle))[0].targets.values()
    (digest,) = {d.digest for i in images for d in i.layers if d.mediaType == WEIGHTS_TYPE}
    path = Store(loading.store).files.path(digest)
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert verdict(loading, *keeping)["findings"][0]["code"] == "AOTC-E201"


@pytest.mark.parametrize("why", ["signer", "version"])
def test_same_refusal(why: str, loading: Loading, capsys: pytest.CaptureFixture[str]) -> None:
    newer = 'minimum_version = "9.0.0"'
    policy = loading.by_a_stranger() if why == "signer" else loading.stating(newer)
    found = [
        verdict(loading, policy, capsys, *more) for more in ((), ("--store", str(loading.store)))
    ]
    for each in found:
        each.pop("host", None)  # how much memory is free changes
    assert found[0] == found[1] and found[0]["exit_code"] == TrustError.exit_code
    assert why == "signer" or "signatures" in found[1]["gates"]


def test_a_store_is_for_references(two: Bundle, tmp_path: Path) -> None:
    assert main(["verify", str(two[0]), "--trust", str(two[1]), "--store", str(tmp_path)]) == 2


def test_where_no_host_is_asked_all_targets_are_fetched(loading: Loading) -> None:
    loading.load()
    policy, store = read_policy(loading.policy), Store(loading.store)
    source = reference_loading.fetch_bundle(loading.place, policy, store, None)
    assert loading.layers(*TARGETS) <= source.digests()


def test_a_store_that_lost_a_manifest_gets_it_again(loading: Loading) -> None:
    loading.load()
    store = Store(loading.store)
    (found,) = store.bundles()
    documents = store.documents(found.root) or []
    (lost,) = (i.config.digest for i, data in documents if target_name(data, "") == loading.other)
    store.files.path(lost).unlink()
    assert loading.load() == loading.best
    assert store.files.path(lost).exists()
