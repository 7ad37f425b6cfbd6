"""A load of a reference fetches the one target that it takes, and knows it without a registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile.tampering import Documents, digest_of, in_memory, signed, take_apart

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.registry.bundle_pull import pull
from aotc.commands.registry.bundle_push import push
from aotc.pipeline.build import build
from aotc_runtime.__main__ import main
from aotc_runtime.base.errors import AotcError, RegistryError, ResourceError, TrustError
from aotc_runtime.formats.oci_layout import INDEX_TYPE, WEIGHTS_TYPE
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.oci.oci_references import Reference
from aotc_serve.oci.registry_listing import target_name
from aotc_serve.store import Store, reference_loading
from tests.conftest import MANIFESTS, Bundle, Once
from tests.registries.conftest import Connect
from tests.registries.faults import always, status
from tests.registries.oci_server import OciServer

TARGETS = ("cpu-x86-64-v2", "cpu-x86-64-v3")


@pytest.fixture(scope="module")
def two(once: Once) -> Bundle:
    """A bundle of two targets that this host runs, and a policy."""

    def fill(folder: Path) -> None:
        signer = LocalSigner.ephemeral()
        output = folder / "two.aotb"
        build(MANIFESTS / "digits.toml", output=output, targets=TARGETS, signer=signer)
        (folder / "trust.toml").write_text(policy_text("digits", [signer.public_pem()]), "utf-8")

    folder = once("two-targets", fill)
    return folder / "two.aotb", folder / "trust.toml"


@pytest.fixture
def place(two: Bundle, connect: Connect) -> Reference:
    with connect("models/digits") as there:
        return push(look_into(two[0]), there, None, 0.0).place


@pytest.fixture
def best(two: Bundle) -> str:
    with aotc_runtime.load(two[0], trust=two[1]) as bundle:
        return str(bundle.report()["target"])


def layers(two: Bundle, target: str) -> set[str]:
    images = read_unverified(look_into(two[0]))[0].targets
    return {layer.digest for layer in images[target].layers}


def fetched(server: OciServer, two: Bundle) -> set[str]:
    """Layers of the bundle that were asked for, of which none may be twice."""
    every = layers(two, TARGETS[0]) | layers(two, TARGETS[1])
    asked = [a.path.rpartition("/")[2] for a in server.asked if a.method == "GET"]
    found = [digest for digest in asked if digest in every]
    assert len(found) == len(set(found))
    return set(found)


def changed(two: Bundle, text: str, folder: Path) -> Path:
    """The policy with more in it."""
    path = folder / "more.toml"
    path.write_text(two[1].read_text("utf-8").replace("name =", f"{text}\nname =", 1), "utf-8")
    return path


def test_a_load_fetches_the_target_that_it_takes_and_no_other(
    two: Bundle, best: str, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    (other,) = set(TARGETS) - {best}
    store = tmp_path / "store"
    with aotc_runtime.load(str(place), trust=two[1], store=store) as bundle:
        report = bundle.report()
    assert (report["target"], report["target_reason"]["absent"]) == (best, [other])
    assert fetched(server, two) == layers(two, best) < layers(two, best) | layers(two, other)
    server.close()
    Store(store).prune(2**40)
    with aotc_runtime.load(str(place), trust=two[1], store=store) as bundle:
        assert bundle.report()["target"] == best


def test_a_copy_with_some_targets_is_pushed_to_where_the_rest_is_or_may_be_absent(
    two: Bundle, place: Reference, connect: Connect, server: OciServer, tmp_path: Path
) -> None:
    def pushed(path: Path, repository: str) -> None:
        with connect(repository) as there:
            push(look_into(path), there, None, 0.0)

    root, part = f"/manifests/{place.digest}", tmp_path / "part.aotb"
    assert server.count("GET", root) == 0, "nobody asks about what is whole"
    with connect("models/digits:1.0.0") as there:
        pull(there, part, Form.ARCHIVE, targets=TARGETS[:1])
    for each in json.loads(server.manifests["models/digits", place.digest][0])["manifests"]:
        image = server.manifests["models/digits", each["digest"]]
        server.manifests["models/another", each["digest"]] = image
    pushed(part, "models/another")
    assert ("models/another", place.digest) in server.manifests
    server.faults.append(always(status(400), "PUT", root))
    pushed(part, "models/digits")  # the root is there, with its other target
    for path, told in ((part, "a refusal of a bundle without "), (two[0], "HTTP 400")):
        with pytest.raises(RegistryError) as refused:
            pushed(path, "models/third")
        assert told in refused.value.findings[0].found


def test_a_target_that_is_named_is_fetched_and_what_lacks_of_the_best_one_later(
    two: Bundle, best: str, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    (other,) = set(TARGETS) - {best}
    store = tmp_path / "store"
    aotc_runtime.load(str(place), trust=two[1], store=store, target=other).close()
    assert fetched(server, two) == layers(two, other)
    with aotc_runtime.load(str(place), trust=two[1], store=store) as bundle:
        assert bundle.report()["target"] == best
    assert fetched(server, two) == layers(two, other) | layers(two, best)


def test_without_a_registry_another_target_is_better_than_none(
    two: Bundle, best: str, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    (other,) = set(TARGETS) - {best}
    store = tmp_path / "store"
    aotc_runtime.load(str(place), trust=two[1], store=store, target=other).close()
    server.close()
    with aotc_runtime.load(str(place), trust=two[1], store=store) as bundle:
        assert bundle.report()["target"] == other


def test_where_nothing_fits_nothing_is_fetched(
    two: Bundle, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    with pytest.raises(ResourceError) as caught:
        aotc_runtime.load(str(place), trust=two[1], store=tmp_path / "store", memory_limit=1)
    assert {f.code for f in caught.value.findings} == {"AOTC-E551"}
    assert len(caught.value.findings) == len(TARGETS)
    assert fetched(server, two) == set()


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ('minimum_version = "9.0.0"', "AOTC-E307"),
        ("limits = { blob_bytes = 1000 }", "AOTC-E320"),
        ('engines = ["iree"]', "AOTC-E322"),
        ('accepts.jaxlib = ["0.1"]', "AOTC-E318"),
    ],
)
def test_what_the_policy_refuses_is_not_fetched(
    rule: str, code: str, two: Bundle, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    policy = changed(two, rule, tmp_path)
    for load in (aotc_runtime.load, aotc_runtime.verify)[: 2 if code == "AOTC-E320" else 1]:
        with pytest.raises(TrustError) as caught:
            load(str(place), trust=policy, store=tmp_path / "store")
        assert caught.value.code == code
    assert fetched(server, two) == set()


def test_no_engine_is_asked_what_the_host_is_for_a_bundle_that_is_not_trusted(
    two: Bundle, place: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr("aotc_runtime.engines.engine_registry.prepare", ask)
    other = LocalSigner.ephemeral().public_pem()
    stranger = tmp_path / "stranger.toml"
    stranger.write_text(policy_text("digits", [other]))
    for policy in (stranger, changed(two, 'minimum_version = "9.0.0"', tmp_path)):
        with pytest.raises(TrustError):
            aotc_runtime.load(str(place), trust=policy, store=tmp_path / "store")
    with pytest.raises(AssertionError, match="asked"):
        aotc_runtime.load(str(place), trust=two[1], store=tmp_path / "store")


def inconsistent(documents: Documents) -> None:
    documents.manifest["entry_points"]["predict"]["profiles"][0]["sizes"] = {"other": 1}


def with_a_layer_of_its_own(documents: Documents) -> None:
    other = {**documents.image["layers"][0], "digest": digest_of(b"x"), "size": 1}
    documents.image["layers"].append(other)
    documents.image["layers"].sort(key=lambda layer: layer["digest"])
    documents.layers[digest_of(b"x")] = b"x"


@pytest.mark.parametrize("damage", [inconsistent, with_a_layer_of_its_own])
def test_what_contradicts_itself_is_not_fetched(
    damage: Callable[[Documents], None], two: Bundle, server: OciServer, tmp_path: Path
) -> None:
    signer = LocalSigner.ephemeral()
    documents = take_apart(in_memory(two[0]))
    damage(documents)
    bundle = signed(documents, signer)
    for digest, data in bundle.blobs.items():
        server.blobs["models/digits", digest] = data
        if data.startswith(b"{"):
            server.manifests["models/digits", digest] = (data, json.loads(data).get("mediaType"))
    (root,) = (
        each["digest"]
        for each in json.loads(bundle.files["index.json"])["manifests"]
        if each["mediaType"] == INDEX_TYPE
    )
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("digits", [signer.public_pem()]), "utf-8")
    place = f"oci://{server.address}/models/digits@{root}"
    with pytest.raises(AotcError) as caught:
        aotc_runtime.load(place, trust=policy, store=tmp_path / "store")
    assert caught.value.code in ("AOTC-E118", "AOTC-E205")
    assert fetched(server, two) == set()


def test_what_is_verified_to_be_loaded_later_is_fetched_whole_or_as_named(
    two: Bundle, best: str, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    aotc_runtime.verify(str(place), trust=two[1], store=tmp_path / "one", target=best)
    assert fetched(server, two) == layers(two, best)
    server.asked.clear()
    aotc_runtime.verify(str(place), trust=two[1], store=tmp_path / "all")
    assert fetched(server, two) == layers(two, TARGETS[0]) | layers(two, TARGETS[1])


def test_a_verdict_keeps_what_a_load_needs(
    two: Bundle,
    best: str,
    place: Reference,
    server: OciServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["verify", str(place), "--trust", str(two[1]), "--store", str(tmp_path), "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["bundle"], found["target"]) == (str(place), best)
    assert found["weights_hashed"] and "digests" in found["gates"]
    assert fetched(server, two) == layers(two, best)
    server.close()
    assert main(command) == 0
    aotc_runtime.load(str(place), trust=two[1], store=tmp_path).close()


def test_a_verdict_that_keeps_weights_hashes_them(
    two: Bundle,
    place: Reference,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["verify", str(place), "--trust", str(two[1]), "--store", str(tmp_path), "--json"]
    assert main(command) == 0
    capsys.readouterr()
    images = read_unverified(look_into(two[0]))[0].targets.values()
    (digest,) = {d.digest for i in images for d in i.layers if d.mediaType == WEIGHTS_TYPE}
    path = Store(tmp_path).files.path(digest)
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert main(command) == 5
    assert json.loads(capsys.readouterr().out)["findings"][0]["code"] == "AOTC-E201"


@pytest.mark.parametrize("rule", ["", 'minimum_version = "9.0.0"\n'], ids=["signer", "version"])
def test_a_refusal_says_the_same_with_a_store_as_without_one(
    two: Bundle, place: Reference, tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    text = policy_text("digits", [LocalSigner.ephemeral().public_pem()])
    if rule:
        text = rule + two[1].read_text("utf-8")
    (tmp_path / "trust.toml").write_text(text, "utf-8")
    found = []
    for more in ((), ("--store", str(tmp_path / "store"))):
        command = ["verify", str(place), "--trust", str(tmp_path / "trust.toml"), "--json", *more]
        assert main(command) == TrustError.exit_code
        found.append(json.loads(capsys.readouterr().out))
        found[-1].pop("host", None)  # how much memory is free changes
    assert found[0] == found[1] and found[0]["findings"]
    if rule:
        assert "signatures" in found[1]["gates"]


def test_a_store_is_for_references(two: Bundle, tmp_path: Path) -> None:
    assert main(["verify", str(two[0]), "--trust", str(two[1]), "--store", str(tmp_path)]) == 2


def test_where_no_host_is_asked_all_targets_are_fetched(
    two: Bundle, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    aotc_runtime.load(str(place), trust=two[1], store=store).close()
    source = reference_loading.fetched(str(place), read_policy(two[1]), store, None)
    assert layers(two, TARGETS[0]) | layers(two, TARGETS[1]) <= source.digests()


def test_a_store_that_lost_a_manifest_gets_it_again(
    two: Bundle, best: str, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    (other,) = set(TARGETS) - {best}
    store = Store(tmp_path / "store")
    aotc_runtime.load(str(place), trust=two[1], store=store).close()
    (found,) = store.bundles()
    documents = store.documents(found.root) or []
    (lost,) = (im.config.digest for im, data in documents if target_name(data, "") == other)
    store.files.path(lost).unlink()
    with aotc_runtime.load(str(place), trust=two[1], store=store) as bundle:
        assert bundle.report()["target"] == best
    assert store.files.path(lost).exists()


def test_a_target_that_is_there_asks_no_registry(
    two: Bundle, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    aotc_runtime.load(str(place), trust=two[1], store=store).close()
    asked = len(server.asked)
    aotc_runtime.load(str(place), trust=two[1], store=store).close()
    assert len(server.asked) == asked


def test_a_registry_that_refuses_is_told_whatever_is_there(
    two: Bundle, best: str, place: Reference, server: OciServer, tmp_path: Path
) -> None:
    (other,) = set(TARGETS) - {best}
    store = tmp_path / "store"
    aotc_runtime.load(str(place), trust=two[1], store=store, target=other).close()
    server.password = "me:secret"
    with pytest.raises(RegistryError) as caught:
        aotc_runtime.load(str(place), trust=two[1], store=store)
    assert caught.value.code == "AOTC-E773"
