"""sigstore-js, by which GitHub attests images: it verifies what we push, we what it attaches."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import KeyType, LocalSigner
from aotc.commands.registry.bundle_push import push
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.registry_listing import fetch_attestations, resolve
from tests.hostile.tampering import policy_for
from tests.registries.conftest import LAYERS, REPO
from tests.registries.oci_server import OciServer
from tests.registries.test_sigstore import ROOT, SIGSTORE, by_cosign, listed_bundles

from .conftest import ROOT as CHECKOUT
from .conftest import skip

NODE = CHECKOUT / "out" / "interop" / "node"

VERIFY = """
const { bundleFromJSON } = require('@sigstore/bundle')
const { Verifier, toSignedEntity, toTrustMaterial } = require('@sigstore/verify')
const { bundle, hint, der } = JSON.parse(require('fs').readFileSync(0))
const root = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] }
const trust = toTrustMaterial(root, { [hint]: { rawBytes: Buffer.from(der, 'base64') } })
const none = { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0, tsaThreshold: 0 }
new Verifier(trust, none).verify(toSignedEntity(bundleFromJSON(bundle)))
"""

ATTACH = """
const { attachArtifactToImage } = require('@sigstore/oci')
const { artifact, ...asked } = JSON.parse(require('fs').readFileSync(0))
attachArtifactToImage({ ...asked, artifact: Buffer.from(JSON.stringify(artifact)) })
"""


def node(program: str, given: Any) -> subprocess.CompletedProcess[str]:
    if not (NODE / "node_modules").is_dir():
        skip("needs npm, @sigstore/verify and @sigstore/oci: make test-interop")
    command = ["node", "--unhandled-rejections=strict", "-e", program]
    return subprocess.run(
        command, cwd=NODE, input=json.dumps(given), capture_output=True, text=True
    )


@pytest.fixture(params=[True, False], ids=["referrers", "tags"])
def server(request: pytest.FixtureRequest) -> Iterator[OciServer]:
    running = OciServer()
    running.referrers = request.param
    yield running
    running.close()


@pytest.fixture
def repository(server: OciServer) -> Iterator[Repository]:
    with Repository(parse(f"oci://{server.address}/{REPO}@{ROOT}")) as found:
        push(open_streamed(LAYERS), found, None, 0.0)
        yield found


def der_of(signer: LocalSigner) -> str:
    return "".join(signer.public_pem().splitlines()[1:-1])


@pytest.mark.parametrize("kind", list(KeyType))
def test_sigstore_js_verifies_what_is_pushed(
    kind: KeyType, repository: Repository, server: OciServer, tmp_path: Path
) -> None:
    from aotc.bundle.sign.bundle_signing import endorse

    signer, path = LocalSigner.ephemeral(kind), tmp_path / "layers.aotb"
    path.write_bytes(LAYERS.read_bytes())
    endorse(path, signer)
    push(open_streamed(path), repository, None, 0.0)
    hint = by_cosign(signer)["verificationMaterial"]["publicKey"]["hint"]
    named = {"publicKey": {"hint": hint}}
    found = [
        b for *_, b in listed_bundles(repository, server) if b["verificationMaterial"] == named
    ]
    (bundle,) = found
    done = node(VERIFY, {"bundle": bundle, "hint": hint, "der": der_of(signer)})
    assert done.returncode == 0, done.stderr
    other = der_of(LocalSigner.ephemeral(kind))
    assert node(VERIFY, {"bundle": bundle, "hint": hint, "der": other}).returncode == 1


@pytest.mark.parametrize("kind", list(KeyType))
def test_what_githubs_library_attaches_is_collected(
    kind: KeyType, repository: Repository, server: OciServer
) -> None:
    signer = LocalSigner.ephemeral(kind)
    asked = {
        "imageName": f"{server.address}/{REPO}",
        "imageDigest": ROOT,
        "mediaType": SIGSTORE,
        "artifact": by_cosign(signer),
        "annotations": {"dev.sigstore.bundle.content": "dsse-envelope"},
    }
    done = node(ATTACH, asked)
    assert done.returncode == 0, done.stderr
    root, policy = resolve(repository), policy_for(signer, name="layers")
    before = fetch_attestations(repository, root).attestations
    assert len(fetch_attestations(repository, root, policy).attestations) == len(before) + 1
