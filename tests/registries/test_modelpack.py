"""`aotc push --modelpack`, read by a client that knows only the specification.

https://github.com/modelpack/model-spec: docs/spec.md, docs/config.md, docs/annotations.md.
"""

import hashlib
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hostile.doors import toolchain

import aotc_runtime
from aotc.bundle.trust.trust_text import policy_text
from aotc.commands.registry.modelpack_push import push_modelpack
from aotc_runtime.base.errors import IntegrityError
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.registries.conftest import GOLDEN, LAYERS, REPO, Registry
from tests.registries.oci_server import OciServer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DIGITS = GOLDEN / "digits.aotb"
ASSETS = GOLDEN / "assets.aotb"
RAW = re.compile(
    r"application/vnd\.cncf\.model\.(weight|weight\.config|doc|code|dataset)\.v1\.raw\Z"
)


class Puller:
    """Pulls a model artifact into a folder."""

    def __init__(self, server: OciServer, tag: str) -> None:
        self._base = f"http://{server.address}/v2/{REPO}"
        self.manifest = json.loads(self._get(f"manifests/{tag}", MANIFEST))
        assert self.manifest["mediaType"] == MANIFEST
        assert self.manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
        described = self.manifest["config"]
        assert described["mediaType"] == "application/vnd.cncf.model.config.v1+json"
        self.config: dict[str, Any] = json.loads(self._blob(described))

    def _get(self, path: str, accept: str = "*/*") -> bytes:
        request = urllib.request.Request(f"{self._base}/{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request) as response:
            data: bytes = response.read()
        return data

    def _blob(self, described: dict[str, Any]) -> bytes:
        data = self._get(f"blobs/{described['digest']}")
        assert described["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert described["size"] == len(data)
        return data

    def pull(self, folder: Path) -> dict[str, str]:
        """Write every layer; return their media types by path."""
        found = {}
        for layer in self.manifest["layers"]:
            assert RAW.match(layer["mediaType"])
            name = layer["annotations"]["org.cncf.model.filepath"]
            assert not name.startswith("/") and ".." not in name.split("/")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(self._blob(layer))
            found[name] = layer["mediaType"]
        return found


def test_pulled_model_is_the_bundle_and_loads(registry: Registry, tmp_path: Path) -> None:
    place = f"oci://{registry.server.address}/{REPO}"
    assert toolchain(["push", str(ASSETS), f"{place}:{'a' * 119}", "--modelpack"]) == 11
    assert not registry.server.manifests
    assert toolchain(["push", str(ASSETS), place, "--modelpack"]) == 0
    puller = Puller(registry.server, "1.0.0-modelpack")
    kinds = puller.pull(tmp_path / "model")
    members = open_bundle(ASSETS).members
    assert {name: bytes(data) for name, data in members.items()} == {
        name: bytes(data) for name, data in open_bundle(tmp_path / "model").members.items()
    }
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("assets", [(GOLDEN / "assets.pub").read_text()]))
    verified = aotc_runtime.verify(tmp_path / "model", trust=policy)
    assert verified.root_digest.removeprefix("sha256:") in "".join(kinds)
    layers = [layer["digest"] for layer in puller.manifest["layers"]]
    described, config = {"name": "assets", "version": "1.0.0"}, {"format": "aotc"}
    files = {"type": "layers", "diffIds": layers}
    assert puller.config == {"descriptor": described, "config": config, "modelfs": files}
    tokens = [name for name, kind in kinds.items() if kind.endswith("weight.config.v1.raw")]
    assert (GOLDEN / "labels.txt").read_bytes() in [bytes(members[name]) for name in tokens]


def test_second_manifest_sends_documents_alone_and_is_the_same_again(registry: Registry) -> None:
    pushed = registry.push(DIGITS)
    assert (REPO, f"{pushed.tag}-modelpack") not in registry.server.manifests
    before = dict(registry.server.blobs)
    source, there = open_streamed(DIGITS), registry.connect()
    first = push_modelpack(source, pushed, there)
    layers = Puller(registry.server, f"{pushed.tag}-modelpack").manifest["layers"]
    weights = {each["digest"] for each in layers if each["mediaType"].endswith("weight.v1.raw")}
    stated = [m.weights for m in read_unverified(source)[0].manifests.values()]
    assert weights == {ref.digest for each in stated for w in each.values() for ref in w.blobs}
    assert weights
    new = registry.server.blobs.keys() - before.keys()
    assert all(registry.server.blobs[each][:1] == b"{" for each in new)
    assert push_modelpack(source, pushed, there) == first
    assert registry.server.manifests[REPO, pushed.tag][0] == bytes(
        source.blob(pushed.place.digest) or b""
    ), "the tag still names the bundle"


def test_bundle_that_changes_meanwhile_is_not_described(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "b.aotb"
    path.write_bytes(LAYERS.read_bytes())
    pushed, source = registry.push(path), open_streamed(path)
    root = bytes(source.blob(pushed.place.digest) or b"")
    path.write_bytes(path.read_bytes().replace(root, root.replace(b"manifests", b"manifestz")))
    with pytest.raises(IntegrityError):
        push_modelpack(source, pushed, registry.connect())
    assert (REPO, "1.0.0-modelpack") not in registry.server.manifests
