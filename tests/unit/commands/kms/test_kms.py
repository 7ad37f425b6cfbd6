"""Keys in key management services: AWS by moto, the others by servers of the tests."""

import json
import ssl
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cloud_services
import pytest
from cloud_services import JsonHandler, proxy_to
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from aotc.base.errors import UsageError
from aotc.bundle.sign.signer_plugins import open_signer
from tests.refusals import error_of
from tests.tls_server import listening, tls_context

services = pytest.mark.skipif(
    find_spec("moto") is None or find_spec("hvac") is None, reason="make test-kms"
)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A key in AWS's service, as the URI of its alias."""
    import boto3
    from moto.kms.utils import ECDSAPrivateKey
    from moto.server import ThreadedMotoServer

    def sign(key: ECDSAPrivateKey, digest: bytes, algorithm: str) -> bytes:
        """Sign a digest, which the service is sent, and which moto would hash again."""
        assert algorithm == "ECDSA_SHA_256"
        return key.private_key.sign(digest, ec.ECDSA(Prehashed(hashes.SHA256())))

    monkeypatch.setattr(ECDSAPrivateKey, "sign", sign)

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("kms")
    made = client.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")
    alias = f"alias/release-{port}"  # moto's servers of one process share their keys
    client.create_alias(AliasName=alias, TargetKeyId=made["KeyMetadata"]["KeyId"])
    yield f"awskms:///{alias}"
    server.stop()


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A key in a server with the two requests of Vault's transit engine that signing takes."""
    key = Ed25519PrivateKey.generate()

    class Transit(JsonHandler):
        def do_GET(self) -> None:
            assert self.path == "/v1/transit/keys/release"
            raw = b64encode(key.public_key().public_bytes_raw()).decode()
            self.answer({"data": {"keys": {"1": {"public_key": ""}, "2": {"public_key": raw}}}})

        def do_POST(self) -> None:
            asked = json.loads(self.asked())
            assert (self.path, asked["key_version"]) == ("/v1/transit/sign/release", 2)
            made = b64encode(key.sign(b64decode(asked["input"]))).decode()
            self.answer({"data": {"signature": f"vault:v2:{made}"}})

    with listening(Transit) as port:
        monkeypatch.setenv("VAULT_ADDR", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("VAULT_TOKEN", "t")
        yield "hashivault://release"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """One in each process, where gRPC reads its roots once."""
    folder = tmp_path_factory.mktemp("authority")
    names = (cloud_services.GOOGLE, cloud_services.VAULT, cloud_services.LOGIN)
    return folder, tls_context(folder, *names)


@pytest.fixture
def clouds(
    authority: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A key in Google's service and in Azure's, which the environment leads to."""
    key, (folder, context) = ec.generate_private_key(ec.SECP256R1()), authority
    google = cloud_services.google(key, folder)
    azure = listening(cloud_services.azure(key), context)
    with google as grpc_port, azure as port:
        ports = {cloud_services.GOOGLE: grpc_port, cloud_services.VAULT: port}
        with proxy_to({**ports, cloud_services.LOGIN: port}) as proxy:
            for name, value in {
                "https_proxy": proxy,
                "REQUESTS_CA_BUNDLE": str(folder / "ca.pem"),
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(folder / "ca.pem"),
                "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"),
                "AZURE_TENANT_ID": "tenant",
                "AZURE_CLIENT_ID": "client",
                "AZURE_CLIENT_SECRET": "secret",
            }.items():
                monkeypatch.setenv(name, value)
            yield


@pytest.fixture
def google(clouds: None) -> str:
    """The URI of Google's key."""
    return f"gcpkms://{cloud_services.VERSION}"


@pytest.fixture
def azure(clouds: None) -> str:
    """The URI of Azure's key."""
    return f"azurekms://{cloud_services.VAULT}/release"


@services
@pytest.mark.kms
@pytest.mark.parametrize("service", ["aws", "vault", "google", "azure"])
def test_a_key_in_a_service_signs_a_bundle_that_its_public_key_verifies(
    service: str,
    request: pytest.FixtureRequest,
    aotc: Callable[..., Any],
    digits_bundle: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    uri = request.getfixturevalue(service)
    signer = open_signer(uri, lambda _: None)
    assert signer.public.verify(signer.sign(b"message"), b"message")
    (tmp_path / "release.pub").write_text(signer.public_pem())
    bundle = tmp_path / "digits.aotb"
    bundle.write_bytes(digits_bundle[0].read_bytes())
    assert aotc("sign", bundle, "--key", uri).exit_code == 0
    made = ("trust", "init", "--key", "release.pub", "--name", "digits", "-o", "release.toml")
    assert aotc(*made).exit_code == 0
    verified = aotc("verify", bundle, "--trust", "release.toml", "--json").document
    assert verified["signers"] == [signer.key_id]


@services
@pytest.mark.kms
@pytest.mark.parametrize("service", ["aws", "google", "azure"])
def test_a_key_that_the_service_does_not_have_is_one_finding(
    service: str, request: pytest.FixtureRequest
) -> None:
    uri = request.getfixturevalue(service)
    (found,) = error_of(UsageError, open_signer, f"{uri}-2", lambda _: None).findings
    scheme = uri.partition(":")[0]
    assert (found.code, found.where) == ("AOTC-E016", f"signer {scheme}, opening the key")
    assert "NotFound" in found.found


@pytest.mark.parametrize(
    ("uri", "expected", "missing"),
    [
        ("awskms:", "awskms:///KEY", ""),
        ("awskms://host/key", "awskms:///KEY", ""),
        ("gcpkms://key", "gcpkms://projects/", ""),
        # A vault of another cloud is not looked for in Azure's.
        ("azurekms://v.vault.azure.cn/k", "azurekms://VAULT.vault.azure.net/KEY", ""),
        ("hashivault://", "hashivault://KEY", ""),
        ("awskms:///key", "", "boto3"),
        ("hashivault://key", "", "hvac"),
        ("azurekms://v.vault.azure.net/k", "", "azure.keyvault.keys"),
        (f"gcpkms://{cloud_services.VERSION}", "", "securesystemslib.signer"),
    ],
)
def test_another_uri_or_a_missing_library_is_one_finding(
    uri: str, expected: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    (found,) = error_of(UsageError, open_signer, uri, lambda _: None).findings
    assert (found.code, found.where) == ("AOTC-E016", f"signer {uri.partition(':')[0]}")
    assert (found.expected or "").startswith(expected)
    assert ("[kms]" in found.hint) is bool(missing)
