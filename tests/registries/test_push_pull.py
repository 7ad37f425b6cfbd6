"""A bundle goes to a registry and comes back with the bytes it had, and nothing moves twice."""

from __future__ import annotations

import json
import resource
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.bundle.write.bundle_writer import Form
from aotc.commands.registry.bundle_pull import pull
from aotc.commands.registry.bundle_push import push
from aotc_runtime.base.errors import AotcError, IntegrityError, RegistryError, TrustError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.store import Store
from aotc_serve.store.store_pull import signed_by
from tests.registries.conftest import GOLDEN, LAYERS, Connect
from tests.registries.faults import always, cut, once, status
from tests.registries.oci_server import Handler, OciServer, sha256

REPO = "models/digits"
NOW = time.time()


def sent(server: OciServer) -> int:
    return server.count("PUT", "/blobs/uploads/")


def pushed(connect: Connect, path: Path = LAYERS, place: str = REPO, **more):
    with connect(place) as there:
        return push(look_into(path), there, None, NOW, **more)


def pulled(connect: Connect, path: Path, place: str, form: Form = Form.ARCHIVE, **more):
    with connect(place) as there:
        return pull(there, path, form, **more)


@pytest.fixture(params=[True, False], ids=["referrers", "tags"])
def either(request: pytest.FixtureRequest, server: OciServer) -> OciServer:
    """A registry with the referrers API, and one without."""
    server.referrers = request.param
    return server


def test_a_bundle_comes_back_byte_for_byte(
    either: OciServer, connect: Connect, tmp_path: Path
) -> None:
    found = pushed(connect, LAYERS)
    assert (found.tag, found.attestations, len(found.sent)) == ("1.0.0", 2, found.blobs)
    for place in (f"{REPO}:1.0.0", f"{REPO}@{found.place.digest}"):
        back = tmp_path / "back.aotb"
        pulled(connect, back, place)
        assert back.read_bytes() == LAYERS.read_bytes()


@pytest.mark.parametrize("name", ["digits", "finite", "layers", "sizes", "sums", "trees"])
def test_bundles_of_every_kind_come_back_with_what_is_signed(
    name: str, either: OciServer, connect: Connect, tmp_path: Path
) -> None:
    path, back = GOLDEN / f"{name}.aotb", tmp_path / "back"
    pushed(connect, path)
    pulled(connect, back, f"{REPO}:1.0.0", Form.LAYOUT)
    one, two = look_into(path), look_into(back)
    assert one.digests() == two.digests()
    assert read_unverified(one)[0].root_digest == read_unverified(two)[0].root_digest


def test_what_is_there_is_neither_sent_nor_fetched_again(
    either: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect, LAYERS)
    before = sent(either)
    assert not pushed(connect, LAYERS).sent
    assert sent(either) == before
    back = tmp_path / "back.aotb"
    pulled(connect, back, f"{REPO}:1.0.0")
    data = back.read_bytes()
    layers = fetched_layers(either)
    assert layers
    pulled(connect, back, f"{REPO}:1.0.0")
    assert fetched_layers(either) == layers, "it was in the file that is replaced"
    assert back.read_bytes() == data


def test_what_the_replaced_bundle_lacks_is_fetched(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect, LAYERS)
    back = tmp_path / "back.aotb"
    shutil.copy(GOLDEN / "digits.aotb", back)
    pulled(connect, back, f"{REPO}:1.0.0")
    assert back.read_bytes() == LAYERS.read_bytes()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"?" + data[1:]])
def test_what_the_replaced_bundle_has_damaged_is_fetched(
    server: OciServer, connect: Connect, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    pushed(connect, LAYERS)
    back = tmp_path / "back"
    pulled(connect, back, f"{REPO}:1.0.0", Form.LAYOUT)
    layer = fetched_layers(server)[0]
    blob = back / "blobs" / "sha256" / layer.removeprefix("sha256:")
    data = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(damage(data))
    pulled(connect, back, f"{REPO}:1.0.0", Form.LAYOUT)
    assert fetched_layers(server).count(layer) == 2, "what the folder had was not taken"
    assert blob.read_bytes() == data


def fetched_layers(server: OciServer) -> list[str]:
    """Blobs that were fetched and are no document."""
    small = {d for (_, d), data in server.blobs.items() if data[:1] == b"{"}
    asked = [each.path.rpartition("/")[2] for each in server.asked if each.method == "GET"]
    return [
        d for d in asked if d.startswith("sha256:") and (REPO, d) in server.blobs and d not in small
    ]


def test_blobs_of_another_repository_are_mounted(server: OciServer, connect: Connect) -> None:
    pushed(connect, place="base/layers")
    before = sent(server)
    found = pushed(connect, mounts=("base/layers",))
    assert (sent(server), len(found.sent)) == (before, 0)


def test_an_attestation_that_is_added_later_is_all_that_is_sent(
    either: OciServer, connect: Connect, tmp_path: Path
) -> None:
    from aotc.bundle.sign.bundle_signing import endorse
    from aotc.bundle.sign.signer import LocalSigner

    path = tmp_path / "layers.aotb"
    shutil.copy(LAYERS, path)
    pushed(connect, path)
    endorse(path, LocalSigner.ephemeral())
    found = pushed(connect, path)
    assert (found.attestations, len(found.sent)) == (3, 1)
    back = tmp_path / "back.aotb"
    pulled(connect, back, f"{REPO}:1.0.0")
    assert back.read_bytes() == path.read_bytes()


def test_attestations_of_two_who_push_at_once_are_both_there(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    """The stand-in for the referrers API is overwritten by another writer once."""
    server.referrers = False
    overwritten = []

    def lose(handler: Handler) -> bool:
        is_index = handler.command == "PUT" and "/manifests/sha256-" in handler.path
        if not is_index or "." in handler.path.rpartition("/")[2] or overwritten:
            return False
        overwritten.append(handler.body())
        handler.answer(201)  # and somebody else's index is there instead
        return True

    server.faults.append(lose)
    found = pushed(connect)
    assert overwritten
    stand_in = server.manifests[REPO, found.place.digest.replace(":", "-")][0]
    assert len(json.loads(stand_in)["manifests"]) == 2


def test_a_stand_in_keeps_what_others_have_listed(server: OciServer, connect: Connect) -> None:
    server.referrers = False
    root = read_unverified(look_into(LAYERS))[0].root_digest
    theirs = {
        "mediaType": oci_layout.MANIFEST_TYPE,
        "digest": sha256(b"x"),
        "size": 1,
        "artifactType": "application/vnd.example",
        "annotations": {"a": "b"},
    }
    index = {"schemaVersion": 2, "mediaType": oci_layout.INDEX_TYPE, "manifests": [theirs]}
    tag = root.replace(":", "-")
    server.manifests[REPO, tag] = (json.dumps(index).encode(), oci_layout.INDEX_TYPE)
    pushed(connect)
    listed = json.loads(server.manifests[REPO, tag][0])["manifests"]
    assert theirs in listed and len(listed) == 3


def test_a_stand_in_that_is_none_or_that_others_overwrite_each_time_is_told(
    server: OciServer, connect: Connect
) -> None:
    server.referrers = False
    tag = read_unverified(look_into(LAYERS))[0].root_digest.replace(":", "-")
    server.manifests[REPO, tag] = (b"[]", oci_layout.INDEX_TYPE)
    with pytest.raises(RegistryError) as caught:
        pushed(connect)
    assert (caught.value.code, caught.value.findings[0].found) == (
        "AOTC-E775",
        "no index of referrers",
    )
    del server.manifests[REPO, tag]
    server.faults.append(always(status(201), "PUT", f"/manifests/{tag}"))
    with pytest.raises(RegistryError) as caught:
        pushed(connect)
    assert "others overwrite each time" in caught.value.findings[0].found


def test_referrers_of_others_are_theirs(
    either: OciServer, connect: Connect, tmp_path: Path
) -> None:
    found = pushed(connect)
    digest = found.place.digest
    subject = {"mediaType": oci_layout.INDEX_TYPE, "digest": digest, "size": 354}
    config = {"mediaType": oci_layout.EMPTY_TYPE, "digest": sha256(b"{}"), "size": 2}
    layer = {"mediaType": "text/plain", "digest": sha256(b"{}"), "size": 2}
    ours = layer | {"mediaType": oci_layout.ATTESTATION_TYPE}
    elsewhere = subject | {"digest": sha256(b"")}
    for number, (kind, layers, of) in enumerate(
        (
            (oci_layout.ATTESTATION_TYPE, [layer], subject),
            ("application/vnd.example", [layer], subject),
            (oci_layout.ATTESTATION_TYPE, [ours, ours], subject),
            (oci_layout.ATTESTATION_TYPE, [ours], elsewhere),
        )
    ):
        data = json.dumps({
            "schemaVersion": 2, "mediaType": oci_layout.MANIFEST_TYPE, "artifactType": kind,
            "config": config, "layers": layers, "subject": of,
        }).encode()  # fmt: skip
        for name in (sha256(data), f"{digest.replace(':', '-')}.other{number}"):
            either.manifests[REPO, name] = (data, oci_layout.MANIFEST_TYPE)
    back = tmp_path / "back.aotb"
    pulled(connect, back, f"{REPO}:1.0.0")
    assert look_into(back).digests() == look_into(LAYERS).digests()


def test_a_registry_with_endless_referrers_is_refused(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect)

    def many(handler: Handler) -> None:
        listed = [
            {"mediaType": oci_layout.MANIFEST_TYPE, "digest": sha256(b"%d" % n), "size": 1}
            for n in range(2000)
        ]
        handler.answer(200, json.dumps({"manifests": listed}).encode())

    server.faults.append(always(many, "GET", "/referrers/"))
    with pytest.raises(RegistryError) as caught:
        pulled(connect, tmp_path / "back.aotb", f"{REPO}:1.0.0")
    assert caught.value.code == "AOTC-E775"


def test_a_tag_is_there_after_everything_else(server: OciServer, connect: Connect) -> None:
    pushed(connect)
    puts = [each.path for each in server.asked if each.method == "PUT"]
    assert puts[-1].endswith("/manifests/1.0.0")


def test_a_tag_is_resolved_once(server: OciServer, connect: Connect, tmp_path: Path) -> None:
    first = pushed(connect)
    pushed(connect, GOLDEN / "digits.aotb", "models/digits:other")
    moved = server.manifests[REPO, "other"]

    def move(handler: Handler) -> bool:
        if handler.command == "GET" and handler.path.endswith("/manifests/1.0.0"):
            handler.answer(200, server.manifests[REPO, first.place.digest][0])
            server.manifests[REPO, "1.0.0"] = moved
            return True
        return False

    server.faults.append(move)
    found = pulled(connect, tmp_path / "back.aotb", f"{REPO}:1.0.0")
    assert found.root_digest == first.place.digest
    assert server.count("GET", "/manifests/1.0.0") == 1


def test_targets_are_fetched_alone(server: OciServer, connect: Connect, tmp_path: Path) -> None:
    path = GOLDEN / "digits.aotb"
    contents, _ = read_unverified(look_into(path))
    name = sorted(contents.manifests)[0]
    pushed(connect, path)
    back = tmp_path / "back.aotb"
    found = pulled(connect, back, f"{REPO}:1.0.0", targets=(name,))
    assert sorted(found.manifests) == [name]
    assert look_into(back).digests() <= look_into(path).digests()
    with pytest.raises(AotcError) as caught:
        pulled(connect, back, f"{REPO}:1.0.0", targets=("none",))
    assert caught.value.code == "AOTC-E505"


@pytest.mark.parametrize("place", ["models/digits:none", "models/none:1.0.0", "models/digits"])
def test_what_is_not_there_is_told(
    place: str, server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect)
    with pytest.raises(RegistryError) as caught:
        pulled(connect, tmp_path / "back.aotb", place)
    assert caught.value.code == "AOTC-E774"
    assert list(tmp_path.iterdir()) == []


def test_an_image_of_others_is_no_bundle(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    data = json.dumps({"schemaVersion": 2, "config": {}, "layers": []}).encode()
    server.manifests[REPO, "1.0.0"] = (data, oci_layout.MANIFEST_TYPE)
    with pytest.raises(AotcError) as caught:
        pulled(connect, tmp_path / "back.aotb", f"{REPO}:1.0.0")
    assert caught.value.code == "AOTC-E101"


def test_a_damaged_bundle_is_not_sent(server: OciServer, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    with tarfile.open(LAYERS) as archive:
        archive.extractall(path, filter="data")
    blob = max((path / "blobs" / "sha256").iterdir(), key=lambda each: each.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    with pytest.raises(IntegrityError):
        pushed(connect, path)
    assert server.asked == []


def test_a_digest_of_another_bundle_is_refused(server: OciServer, connect: Connect) -> None:
    with pytest.raises(RegistryError) as caught:
        pushed(connect, place=f"{REPO}@{sha256(b'')}")
    assert caught.value.code == "AOTC-E771"
    assert server.asked == []
    root = read_unverified(look_into(LAYERS))[0].root_digest
    assert pushed(connect, place=f"{REPO}@{root}").place.digest == root


def test_a_place_that_cannot_be_written_is_told_before_anything_is_asked(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect)
    before = len(server.asked)
    with pytest.raises(AotcError) as caught:
        pulled(connect, tmp_path, f"{REPO}:1.0.0")
    assert (caught.value.code, len(server.asked)) == ("AOTC-E003", before)


@pytest.mark.parametrize("form", list(Form))
def test_a_file_system_that_takes_nothing_is_told(
    form: Form, server: OciServer, connect: Connect
) -> None:
    pushed(connect)
    with pytest.raises(AotcError) as caught:
        pulled(connect, Path("/proc/pulled"), f"{REPO}:1.0.0", form)
    assert caught.value.code == "AOTC-E003"


def test_a_bundle_that_nobody_trusts_is_not_fetched(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    from aotc.bundle.sign.signer import LocalSigner
    from aotc.bundle.trust.trust_text import policy_text

    pushed(connect)
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("layers", [LocalSigner.ephemeral().public_pem()]))
    accept = signed_by(read_policy(policy), NOW, "it")
    with pytest.raises(TrustError):
        pulled(connect, tmp_path / "back.aotb", f"{REPO}:1.0.0", accept=accept)
    assert fetched_layers(server) == []
    assert [path.name for path in tmp_path.iterdir()] == ["trust.toml"]


FAULTS = [
    pytest.param(cut(0), id="breaks off"),
    pytest.param(always(status(500)), id="500"),
    pytest.param(always(lambda h: h.answer(200, b"other")), id="lies"),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", list(Form))
def test_a_pull_that_fails_leaves_what_was_there(
    fault: object, form: Form, server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect)
    path = tmp_path / "back"
    pulled(connect, path, f"{REPO}:1.0.0", form)
    before = sorted(p.name for p in tmp_path.rglob("*"))
    found = pushed(connect, GOLDEN / "digits.aotb", f"{REPO}:next")
    server.faults.append(fault)  # type: ignore[arg-type]
    with pytest.raises((RegistryError, IntegrityError)):
        pulled(connect, path, f"{REPO}:next", form)
    assert sorted(p.name for p in tmp_path.rglob("*")) == before
    assert read_unverified(look_into(path))[0].root_digest != found.place.digest


def test_a_push_that_fails_moves_no_tag(server: OciServer, connect: Connect) -> None:
    pushed(connect, place=f"{REPO}:stable")
    before = server.manifests[REPO, "stable"]
    server.faults.append(once(status(400), "PUT", "/manifests/"))
    with pytest.raises(RegistryError):
        pushed(connect, GOLDEN / "digits.aotb", f"{REPO}:stable")
    assert server.manifests[REPO, "stable"] == before


def test_a_disk_that_is_full_leaves_nothing(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect, GOLDEN / "digits.aotb")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(AotcError) as caught:
            pulled(connect, tmp_path / "back.aotb", f"{REPO}:1.0.0")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.code == "AOTC-E560"
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_bytes_up_to_all_of_them(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    found = pushed(connect, on_bytes=lambda done, total: told.append((done, total)))
    assert told[-1] == (found.size_bytes, found.size_bytes)
    told.clear()
    store = Store(tmp_path / "store")
    more = {"store": store, "on_bytes": lambda done, total: told.append((done, total))}
    pulled(connect, tmp_path / "back.aotb", f"{REPO}:1.0.0", **more)
    assert told[-1][0] == told[-1][1] > 0
    assert all(0 <= done <= total for done, total in told)


@pytest.mark.parametrize("what", ["root", "image manifest", "attestation"])
def test_a_document_that_is_written_into_while_it_is_pushed_is_not_pushed(
    what: str, server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    """The registry takes whatever it is given."""
    folder = tmp_path / "layout"
    with tarfile.open(LAYERS) as archive:
        archive.extractall(folder, filter="data")
    root, attestation, *_ = json.loads((folder / "index.json").read_bytes())["manifests"]
    (image,) = json.loads((folder / "blobs/sha256" / root["digest"][7:]).read_bytes())["manifests"]
    digest = {"root": root, "image manifest": image, "attestation": attestation}[what]["digest"]
    file = folder / "blobs/sha256" / digest[7:]

    def written(handler: Handler) -> bool:
        with file.open("r+b") as other:
            other.write(file.read_bytes().replace(b"application", b"Application"))
        return False

    server.faults.append(written)
    with pytest.raises(IntegrityError) as refused:
        pushed(connect, folder)
    assert (refused.value.code, digest in refused.value.findings[0].where) == ("AOTC-E201", True)
    assert (REPO, "1.0.0") not in server.manifests and (REPO, digest) not in server.manifests
