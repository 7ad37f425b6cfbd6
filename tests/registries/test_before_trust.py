"""Cost of what a registry sends before it is known who vouches for it.

Nothing but the root and its attestations is asked for, by every command that takes a reference.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aotc_runtime.formats import oci_layout
from tests.conftest import Bundle
from tests.hostile.tampering import MemoryBundle, digest_of, in_memory, to_json
from tests.hostile.test_amplification import FITTING, TABLE, WORST, Cost, Scale, over, root_of
from tests.registries.oci_server import OciServer

REPO = "models/digits"
TAG = "1.0.0"


def served(server: OciServer, bundle: MemoryBundle) -> None:
    """Have a bundle in the registry, whatever is wrong with it."""
    server.blobs |= {(REPO, digest): data for digest, data in bundle.blobs.items()}

    def is_manifest(digest: str, kind: str) -> None:
        server.manifests[REPO, digest] = (bundle.blobs[digest], kind)

    for entry in json.loads(bundle.files["index.json"])["manifests"]:
        is_manifest(entry["digest"], entry["mediaType"])
    root = root_of(bundle)["digest"]
    for entry in json.loads(bundle.blobs[root])["manifests"]:
        is_manifest(entry["digest"], entry["mediaType"])
    server.manifests[REPO, TAG] = server.manifests[REPO, root]


def of_large_documents(good: MemoryBundle) -> MemoryBundle:
    """A root that anybody can make: of many targets, each with 8 MB of image manifest, which says
    what the genuine one says and more; its attestations are about another root.
    """
    before = json.loads(good.blobs[root_of(good)["digest"]])
    (target,) = before["manifests"]
    image = json.loads(good.blobs[target["digest"]])
    blobs, manifests = dict(good.blobs), []
    for number in range(40):
        data = to_json({**image, "annotations": {"x": f"{number}" + "x" * 8_000_000}})
        blobs[digest_of(data)] = data
        manifests.append({**target, "digest": digest_of(data), "size": len(data)})
    manifests.sort(key=lambda each: each["digest"])
    root = to_json({**before, "manifests": manifests})
    blobs[digest_of(root)] = root
    entry = {"mediaType": oci_layout.INDEX_TYPE, "digest": digest_of(root), "size": len(root)}
    index = {"schemaVersion": 2, "manifests": [entry]}
    return MemoryBundle({**good.files, "index.json": to_json(index)}, blobs)


ATTACKS: dict[str, Callable[[MemoryBundle], MemoryBundle]] = {
    "a root of large documents": of_large_documents,
    "250 times an envelope of 64 signatures": TABLE["250 times an envelope of 64 signatures"],
    **{name: FITTING[name] for name in WORST},
}

Command = Callable[[str, Path, Path], tuple[str | Path, ...]]

DOORS: dict[str, Command] = {
    "load": lambda place, policy, folder: ("load", place, policy),
    "verify": lambda place, policy, folder: ("command", "verify", place, "--trust", policy),
    "runtime verify": lambda place, policy, folder: ("verify", place, policy),
    "runtime verify --store": lambda place, policy, folder: (
        "runtime", "verify", place, "--trust", policy, "--store", folder / "kept"
    ),
    "pull": lambda place, policy, folder: (
        "command", "pull", place, "--trust", policy, "-o", folder / "pulled.aotb"
    ),
    "pull --store": lambda place, policy, folder: (
        "command", "pull", place, "--trust", policy, "--store", folder / "pulled"
    ),
    "diff": lambda place, policy, folder: ("command", "diff", place, place, "--trust", policy),
    "report": lambda place, policy, folder: (
        "command", "report", place, "--trust", policy, "-o", folder / "page.html"
    ),
    "pull --layout": lambda place, policy, folder: (
        "command", "pull", place, "--trust", policy, "--layout", folder / "layout"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scale]:
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("AOTC_STORE", str(tmp_path_factory.mktemp("store") / "default"))
        made = Scale()
    yield made
    made.process.communicate()


@pytest.fixture(scope="module")
def good(digits_bundle: Bundle) -> MemoryBundle:
    return in_memory(digits_bundle[0])


@pytest.fixture(scope="module")
def attacks(good: MemoryBundle) -> dict[str, MemoryBundle]:
    """Return the bundle of each attack: hundreds of megabytes, made once for all readers."""
    return {name: attack(good) for name, attack in ATTACKS.items()}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_asks_who_vouches_before_it_reads_more(
    door: str,
    scale: Scale,
    server: OciServer,
    good: MemoryBundle,
    attacks: dict[str, MemoryBundle],
    digits_bundle: Bundle,
    tmp_path: Path,
) -> None:
    policy = digits_bundle[1]
    served(server, good)
    genuine = cost(scale, door, server, policy, tmp_path / "good")
    assert genuine.code == 0
    for name, bad in attacks.items():
        server.blobs.clear(), server.manifests.clear(), server.asked.clear()
        served(server, bad)
        found = cost(scale, door, server, policy, tmp_path / name)
        assert found.code in (0, 5), name
        over(found, genuine)
        root = bad.blobs[root_of(bad)["digest"]]
        if root != good.blobs[root_of(good)["digest"]]:
            asked = {each.path.rpartition("/")[2] for each in server.asked}
            assert found.code == 5
            assert not asked & {each["digest"] for each in json.loads(root)["manifests"]}


def cost(scale: Scale, door: str, server: OciServer, policy: Path, folder: Path) -> Cost:
    folder.mkdir()
    place = f"oci://{server.address}/{REPO}:{TAG}"
    return scale.cost(*DOORS[door](place, policy, folder))
