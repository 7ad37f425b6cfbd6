"""A bundle goes to a registry and comes back with the bytes it had, and nothing moves twice."""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.bundle_writer import Form
from aotc_runtime.base.errors import IntegrityError, RegistryError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_serve.store import Store
from tests.registries.conftest import GOLDEN, LAYERS, REPO, TAG, Registry, refused
from tests.registries.faults import Fault, always, cut, once, status
from tests.registries.oci_server import Handler, OciServer, sha256

DIGITS = GOLDEN / "digits.aotb"
ROOT_DIGEST = read_unverified(open_streamed(LAYERS))[0].root_digest
REFERRERS_TAG = ROOT_DIGEST.replace(":", "-")


def sent(server: OciServer) -> int:
    return server.count("PUT", "/blobs/uploads/")


def unpacked(folder: Path) -> Path:
    with tarfile.open(LAYERS) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def back(tmp_path: Path) -> Path:
    return tmp_path / "back.aotb"


def test_a_bundle_comes_back_byte_for_byte(either: Registry, back: Path) -> None:
    found = either.push()
    assert (found.tag, found.attestations, len(found.sent)) == ("1.0.0", 2, len(found.parts))
    for place in (TAG, f"{REPO}@{found.place.digest}"):
        either.pull(back, place)
        assert back.read_bytes() == LAYERS.read_bytes()


@pytest.mark.parametrize("name", ["assets", "digits", "finite", "layers", "sizes", "sums", "trees"])
def test_bundles_come_back_as_signed(name: str, either: Registry, tmp_path: Path) -> None:
    path, back = GOLDEN / f"{name}.aotb", tmp_path / "back"
    either.push(path)
    either.pull(back, form=Form.LAYOUT)
    one, two = open_streamed(path), open_streamed(back)
    assert one.digests() == two.digests()
    assert read_unverified(one)[0].root_digest == read_unverified(two)[0].root_digest


@pytest.mark.parametrize("had_tag", [True, False])
def test_tag_that_another_push_moved_stays_there(had_tag: bool, registry: Registry) -> None:
    server, theirs = registry.server, (b'{"schemaVersion":2}', oci_layout.INDEX_TYPE)
    if had_tag:
        registry.push(DIGITS, TAG)

    def move(handler: Handler) -> bool:
        server.manifests[REPO, "1.0.0"] = theirs
        return False

    server.faults.append(once(move, "PUT", f"/manifests/{ROOT_DIGEST}"))
    found = refused(registry.push)
    assert (found.code, found.title) == ("AOTC-E775", "tag moved during the push")
    assert found.found == f"sha256:{sha256(theirs[0]).removeprefix('sha256:')}"
    assert server.manifests[REPO, "1.0.0"] == theirs
    assert registry.push().tag == "1.0.0"


def test_tag_of_another_artifact_may_be_taken(registry: Registry) -> None:
    registry.server.faults.append(always(status(406), "GET", "/manifests/1.0.0"))
    assert registry.push().tag == "1.0.0"


def test_what_is_there_is_neither_sent_nor_fetched_again(either: Registry, back: Path) -> None:
    either.push()
    before = sent(either.server)
    assert not either.push().sent and sent(either.server) == before
    either.pull(back)
    data, layers = back.read_bytes(), either.layers
    assert layers
    either.pull(back)
    assert either.layers == layers, "it was in the file that is replaced"
    assert back.read_bytes() == data


def test_what_the_replaced_bundle_lacks_is_fetched(registry: Registry, back: Path) -> None:
    registry.push()
    shutil.copy(DIGITS, back)
    registry.pull(back)
    assert back.read_bytes() == LAYERS.read_bytes()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"?" + data[1:]])
def test_what_the_replaced_bundle_has_damaged_is_fetched(
    registry: Registry, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    registry.push()
    back = tmp_path / "back"
    registry.pull(back, form=Form.LAYOUT)
    layer = registry.layers[0]
    blob = back / "blobs" / "sha256" / layer.removeprefix("sha256:")
    data = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(damage(data))
    registry.pull(back, form=Form.LAYOUT)
    assert registry.layers.count(layer) == 2, "what the folder had was not taken"
    assert blob.read_bytes() == data


def test_blobs_of_another_repository_are_mounted(registry: Registry) -> None:
    registry.push(place="base/layers")
    before = sent(registry.server)
    assert not registry.push(mounts=("base/layers",)).sent
    assert sent(registry.server) == before


def test_later_attestation_is_sent_alone(either: Registry, back: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(LAYERS, tmp_path / "layers.aotb"))
    either.push(path)
    endorse(path, LocalSigner.ephemeral())
    found = either.push(path)
    assert (found.attestations, len(found.sent)) == (3, 1)
    either.pull(back)
    assert back.read_bytes() == path.read_bytes()


def listed(server: OciServer) -> list[Any]:
    """Return the entries under the referrers tag."""
    return json.loads(server.manifests[REPO, REFERRERS_TAG][0])["manifests"]


def test_attestations_of_two_who_push_at_once_are_both_there(registry: Registry) -> None:
    """Another client overwrites the referrers tag once."""
    registry.server.referrers = False
    lose = once(lambda handler: (handler.body(), handler.answer(201)), "PUT", f"/{REFERRERS_TAG}")
    registry.server.faults.append(lose)
    registry.push()
    assert len(listed(registry.server)) == 4


def set_referrers_tag(server: OciServer, *entries: object) -> None:
    server.referrers = False
    kind = oci_layout.INDEX_TYPE
    index = {"schemaVersion": 2, "mediaType": kind, "manifests": entries}
    server.manifests[REPO, REFERRERS_TAG] = (json.dumps(index).encode(), kind)


def test_push_keeps_other_entries_of_the_referrers_tag(registry: Registry) -> None:
    theirs = {
        "mediaType": oci_layout.MANIFEST_TYPE,
        "digest": sha256(b"x"),
        "size": 1,
        "artifactType": "application/vnd.example",
        "annotations": {"a": "b"},
    }
    set_referrers_tag(registry.server, theirs)
    registry.push()
    assert theirs in listed(registry.server) and len(listed(registry.server)) == 5


def test_push_reports_a_bad_or_overwritten_referrers_tag(registry: Registry) -> None:
    set_referrers_tag(registry.server)
    registry.server.manifests[REPO, REFERRERS_TAG] = (b"[]", oci_layout.INDEX_TYPE)
    told = refused(registry.push, kind=RegistryError)
    assert told.code == "AOTC-E775"
    del registry.server.manifests[REPO, REFERRERS_TAG]
    registry.server.faults.append(always(status(201), "PUT", f"/manifests/{REFERRERS_TAG}"))
    assert refused(registry.push).title == "concurrent push to the repository"


def test_referrers_of_others_are_theirs(either: Registry, back: Path) -> None:
    digest = either.push().place.digest
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
            either.server.manifests[REPO, name] = (data, oci_layout.MANIFEST_TYPE)
    either.pull(back)
    assert open_streamed(back).digests() == open_streamed(LAYERS).digests()


def test_a_tag_is_there_after_everything_else(registry: Registry) -> None:
    registry.push()
    puts = [each.path for each in registry.server.asked if each.method == "PUT"]
    assert puts[-1].endswith("/manifests/1.0.0")


def test_a_tag_is_resolved_once(registry: Registry, back: Path) -> None:
    server, first = registry.server, registry.push().place.digest
    registry.push(DIGITS, "models/digits:other")

    def move(handler: Handler) -> None:
        handler.answer(200, server.manifests[REPO, first][0])
        server.manifests[REPO, "1.0.0"] = server.manifests[REPO, "other"]

    server.faults.append(always(move, text="/manifests/1.0.0"))
    server.asked.clear()
    assert registry.pull(back).root_digest == first
    assert server.count("GET", "/manifests/1.0.0") == 1


def test_targets_are_fetched_alone(registry: Registry, back: Path) -> None:
    name = min(read_unverified(open_streamed(DIGITS))[0].manifests)
    registry.push(DIGITS)
    assert sorted(registry.pull(back, targets=(name,)).manifests) == [name]
    assert open_streamed(back).digests() <= open_streamed(DIGITS).digests()
    assert refused(registry.pull, back, targets=("none",)).code == "AOTC-E505"


@pytest.mark.parametrize("place", [f"{REPO}:none", "models/none:1.0.0", REPO, f"{REPO}:image"])
def test_what_is_not_there_is_told(place: str, registry: Registry, back: Path) -> None:
    registry.push()
    image = b'{"schemaVersion":2,"config":{},"layers":[]}'
    registry.server.manifests[REPO, "image"] = (image, oci_layout.MANIFEST_TYPE)
    assert refused(registry.pull, back, place).code == "AOTC-E774"
    assert list(back.parent.iterdir()) == []


def test_a_damaged_bundle_is_not_sent(registry: Registry, tmp_path: Path) -> None:
    path = unpacked(tmp_path / "damaged")
    blob = max((path / "blobs" / "sha256").iterdir(), key=lambda each: each.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    refused(registry.push, path, kind=IntegrityError)
    assert registry.server.asked == []


def test_a_digest_of_another_bundle_is_refused(registry: Registry) -> None:
    assert refused(registry.push, place=f"{REPO}@{sha256(b'')}").code == "AOTC-E771"
    assert registry.server.asked == []
    assert registry.push(place=f"{REPO}@{ROOT_DIGEST}").place.digest == ROOT_DIGEST


def test_unwritable_place_is_told_before_asking(registry: Registry, tmp_path: Path) -> None:
    registry.push()
    before = len(registry.server.asked)
    assert refused(registry.pull, tmp_path).code == "AOTC-E003"
    assert len(registry.server.asked) == before
    for form in Form:
        assert refused(registry.pull, Path("/proc/pulled"), form=form).code == "AOTC-E003"


FAULTS = [
    pytest.param(cut(0), id="breaks off"),
    pytest.param(always(status(500)), id="500"),
    pytest.param(always(status(200, b"other")), id="lies"),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", list(Form))
def test_failed_pull_keeps(fault: Fault, form: Form, registry: Registry, tmp_path: Path) -> None:
    registry.push()
    path = tmp_path / "back"
    registry.pull(path, form=form)
    before = sorted(p.name for p in tmp_path.rglob("*"))
    found = registry.push(DIGITS, f"{REPO}:next")
    registry.server.faults.append(fault)
    refused(registry.pull, path, f"{REPO}:next", form)
    assert sorted(p.name for p in tmp_path.rglob("*")) == before
    assert read_unverified(open_streamed(path))[0].root_digest != found.place.digest


def test_a_push_that_fails_moves_no_tag(registry: Registry) -> None:
    registry.push(place=f"{REPO}:stable")
    before = registry.server.manifests[REPO, "stable"]
    registry.server.faults.append(once(status(400), "PUT", "/manifests/"))
    refused(registry.push, DIGITS, f"{REPO}:stable", kind=RegistryError)
    assert registry.server.manifests[REPO, "stable"] == before


def test_progress_counts_all_bytes(registry: Registry, back: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def on_bytes(done: int, total: int) -> None:
        told.append((done, total))

    found = registry.push(on_bytes=on_bytes)
    assert told[-1] == (found.size_bytes, found.size_bytes)
    told.clear()
    registry.pull(back, store=Store(tmp_path / "store"), on_bytes=on_bytes)
    assert told[-1][0] == told[-1][1] > 0
    assert all(0 <= done <= total for done, total in told)


@pytest.mark.parametrize("what", ["root", "image manifest", "attestation"])
def test_changing_document_is_not_pushed(what: str, registry: Registry, tmp_path: Path) -> None:
    """The registry takes whatever it is given."""
    folder = unpacked(tmp_path / "layout")
    root, attestation, *_ = json.loads((folder / "index.json").read_bytes())["manifests"]
    (image,) = json.loads((folder / "blobs/sha256" / root["digest"][7:]).read_bytes())["manifests"]
    digest = {"root": root, "image manifest": image, "attestation": attestation}[what]["digest"]
    file = folder / "blobs/sha256" / digest[7:]

    def written(handler: Handler) -> bool:
        with file.open("r+b") as other:
            other.write(file.read_bytes().replace(b"application", b"Application"))
        return False

    registry.server.faults.append(written)
    told = refused(registry.push, folder, kind=IntegrityError)
    assert (told.code, digest in told.where) == ("AOTC-E201", True)
    manifests = registry.server.manifests
    assert (REPO, "1.0.0") not in manifests and (REPO, digest) not in manifests
