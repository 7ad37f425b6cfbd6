"""Push and pull with Debian's docker-registry, and with the tools that its users have."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import aotc_runtime
from aotc.bundle.write.oci_descriptors import attestation_name
from aotc.cli.command_group import cli
from aotc.commands.registry.bundle_push import push
from aotc_runtime.base.errors import RegistryError
from aotc_runtime.formats.oci_layout import SIGSTORE_TYPE
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import read_root
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository
from tests.conftest import ROOT, Bundle
from tests.documented import code_of, in_shell
from tests.registries.docker_registry import (
    MARKS,
    ORAS,
    SKOPEO,
    running,
    skopeo,
    with_password,
    with_tls,
)

pytestmark = MARKS


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "registry") as address:
        yield address


def aotc(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], catch_exceptions=False)


def said(*arguments: object) -> dict[str, object]:
    done = aotc(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_blobs_are_mounted_from_another_repository(registry: str, digits_bundle: Bundle) -> None:
    bundle, _ = digits_bundle
    said("push", bundle, f"oci://{registry}/models/digits")
    mounted = said("push", bundle, f"oci://{registry}/other/digits", "--mount", "models/digits")
    assert mounted["sent_blobs"] == 0


def test_large_blobs_go_in_chunks(registry: str, digits_bundle: Bundle, tmp_path: Path) -> None:
    bundle, _ = digits_bundle
    with Repository(parse(f"oci://{registry}/models/digits")) as there:
        push(open_streamed(bundle), there, None, 0.0, chunk_bytes=5000)
    back = tmp_path / "back.aotb"
    said("pull", f"oci://{registry}/models/digits:1.0.0", "-o", back)
    assert back.read_bytes() == bundle.read_bytes()


@pytest.fixture
def layout(digits_bundle: Bundle, tmp_path: Path) -> Path:
    (tmp_path / "digits").mkdir()
    subprocess.run(["tar", "-xf", digits_bundle[0], "-C", tmp_path / "digits"], check=True)
    return tmp_path / "digits"


needs_oras = pytest.mark.skipif(not ORAS, reason="oras: make test-registry")


def oras(what: str, place: str, folder: Path) -> None:
    script = ROOT / "tests" / "registries" / "with_oras.py"
    subprocess.run([ORAS, str(script), what, place, str(folder)], check=True)


BY = pytest.mark.parametrize("by", ["skopeo", pytest.param("oras", marks=needs_oras)])


@BY
def test_others_pull_our_push(
    by: str, registry: str, digits_bundle: Bundle, tmp_path: Path
) -> None:
    bundle, policy = digits_bundle
    said("push", bundle, f"oci://{registry}/digits")
    root, there = read_root(open_bundle(bundle)), tmp_path / "fetched"
    attached = (attestation_name(root.entry.digest, e.digest) for e in root.attestations)
    if by == "oras":
        oras("pull", f"{registry}/digits", there)
    else:
        for name in ("1.0.0", *attached):
            skopeo("copy", "--all", "--preserve-digests", "--src-tls-verify=false",
                   f"docker://{registry}/digits:{name}", f"oci:{there}:{name}")  # fmt: skip
    assert open_bundle(there).digests() == open_bundle(bundle).digests()
    aotc_runtime.load(there, trust=policy).close()


@BY
def test_pull_of_others_push(
    by: str, registry: str, digits_bundle: Bundle, layout: Path, tmp_path: Path
) -> None:
    bundle, policy = digits_bundle
    if by == "oras":
        oras("push", f"{registry}/digits", layout)
    else:
        for entry in json.loads((layout / "index.json").read_bytes())["manifests"]:
            name = entry["annotations"]["org.opencontainers.image.ref.name"]
            skopeo("copy", "--all", "--preserve-digests", "--dest-tls-verify=false",
                   f"oci:{layout}:{name}", f"docker://{registry}/digits:{name}")  # fmt: skip
    back = tmp_path / "back.aotb"
    said("pull", f"oci://{registry}/digits:1.0.0", "-o", back, "--trust", policy)
    assert open_bundle(back).digests() == open_bundle(bundle).digests()
    aotc_runtime.load(back, trust=policy).close()


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Docker's configuration, which has nothing yet."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    return folder


def login(folder: Path, address: str, password: str) -> None:
    auth = base64.b64encode(f"me:{password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {address: {"auth": auth}}}))


def test_registry_needs_login(digits_bundle: Bundle, tmp_path: Path, nobody: Path) -> None:
    bundle, _ = digits_bundle
    folder = tmp_path / "registry"
    with running(folder, **with_password(folder)) as address:
        place = f"oci://{address}/models/digits"
        for password in ("", "wrong"):
            if password:
                login(nobody, address, password)
            done = aotc("push", bundle, place)
            assert done.exit_code == RegistryError.exit_code and "AOTC-E773" in done.output
        # What docker's own tools write is what is read.
        skopeo("login", "--tls-verify=false", "--authfile", str(nobody / "config.json"),
               "-u", "me", "-p", "secret", address)  # fmt: skip
        said("push", bundle, place)
        back = tmp_path / "back.aotb"
        said("pull", f"{place}:1.0.0", "-o", back)
        assert back.read_bytes() == bundle.read_bytes()


def test_registry_uses_own_authority(digits_bundle: Bundle, tmp_path: Path, nobody: Path) -> None:
    bundle, _ = digits_bundle
    folder, other = tmp_path / "registry", tmp_path / "other"
    with_tls(other)
    with running(folder, **with_tls(folder), **with_password(folder)) as address:
        login(nobody, address, "secret")
        place, back = f"oci://{address}/models/digits:1.0.0", tmp_path / "back.aotb"
        done = aotc("push", bundle, place, "--ca", other / "ca.pem")
        assert done.exit_code == RegistryError.exit_code
        assert "AOTC-E772" in done.output and "CERTIFICATE_VERIFY_FAILED" in done.output
        said("push", bundle, place, "--ca", folder / "ca.pem")
        said("pull", place, "-o", back, "--ca", folder / "ca.pem")
        assert back.read_bytes() == bundle.read_bytes()
        done = aotc("pull", place, "-o", back)
        assert done.exit_code == RegistryError.exit_code, "and not without TLS"


def test_referrers_tag_stands_in_for_the_api(registry: str, digits_bundle: Bundle) -> None:
    bundle, _ = digits_bundle
    pushed = said("push", bundle, f"oci://{registry}/digits")
    with Repository(parse(f"oci://{registry}/digits")) as there:
        assert there.document(f"referrers/{pushed['root_digest']}", 1000) is None
        referrers_tag = there.manifest(str(pushed["root_digest"]).replace(":", "-"))
    assert referrers_tag is not None
    attached = {entry.digest for entry in read_root(open_bundle(bundle)).attestations}
    listed = json.loads(referrers_tag.data)["manifests"]
    sigstore = {each["digest"] for each in listed if each["artifactType"] == SIGSTORE_TYPE}
    assert {each["digest"] for each in listed} - sigstore == attached
    assert len(sigstore) == len(attached), "each attestation also as cosign reads it"


@pytest.mark.usefixtures("layout")
def test_pull_keeps_signed_bytes(registry: str, digits_bundle: Bundle, tmp_path: Path) -> None:
    bundle, policy = digits_bundle
    tool = tmp_path / "skopeo"
    tool.write_text(
        f'#!/bin/sh\ncommand=$1\nshift\nexec {SKOPEO} --insecure-policy $command "$@"\n'
    )
    tool.chmod(0o755)
    page = ROOT / "docs" / "reference" / "bundle-format.md"
    plain = code_of("sh", page, "Through registries").replace("registry.example.org", registry)
    plain = plain.replace(
        "skopeo copy", "skopeo copy --src-tls-verify=false --dest-tls-verify=false"
    )
    plain = plain.replace("skopeo list-tags", "skopeo list-tags --tls-verify=false")
    in_shell(f'PATH="$PWD:$PATH"\n{plain}', tmp_path)
    back = tmp_path / "fetched"
    assert open_bundle(back).digests() == open_bundle(bundle).digests()
    aotc_runtime.load(back, trust=policy).close()
