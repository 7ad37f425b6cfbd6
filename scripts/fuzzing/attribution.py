"""Readers of what says who signed, when, and what is deployed.

Sigstore's material and trusted roots, timestamps and their authorities, a channel's files and what
a host keeps of them.
"""

import base64
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519
from securesystemslib.signer import Signature
from tuf.api.metadata import Metadata

from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.attach import sigstore_bundle
from aotc.commands.channel import channel_repository
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, raise_if
from aotc_runtime.formats.in_toto import PAYLOAD_TYPE, PROVENANCE_TYPE, SignedPayload
from aotc_runtime.schema.trust_policy import Channel, Identity, TimestampAuthority, TrustPolicy
from aotc_runtime.verification import signature_timestamps, sigstore_identities
from aotc_runtime.verification.public_keys import Trials
from aotc_serve.channel import channel_client
from aotc_serve.channel import channel_state as state
from tests.hostile.authorities import Authority, answer_to, authority
from tests.hostile.identities import IDENTITY, ISSUER, Sigstore
from tests.memory_files import kept_folder

OFFLINE, RELEASE, ONLINE = (
    LocalSigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([n] * 32))) for n in range(3)
)
NAME = "digits"
SIGNATURE = b"a signature"
INDEX = b"the root index of a bundle"
FIRST_ROOT, SNAPSHOT, TARGETS, STAMP = (
    "1.root.json", "1.snapshot.json", "1.targets.json", "timestamp.json",
)  # fmt: skip


@cache
def sigstore() -> Sigstore:
    return Sigstore()


@cache
def signed() -> Mapping[str, Any]:
    """A Sigstore bundle of a statement."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "x", "digest": {"sha256": "0" * 64}}],
        "predicateType": PROVENANCE_TYPE,
        "predicate": {},
    }
    return sigstore().signed(json.dumps(statement).encode())


def _identity(**stated: str) -> Identity:
    given: dict[str, Any] = {
        "issuer": ISSUER,
        "identity": IDENTITY,
        "trusted_root": sigstore().trusted_root(),
    }
    return Identity(**{**given, **stated})


def _who(material: bytes, identity: Identity) -> list[tuple[str, bytes]]:
    envelope = signed()["dsseEnvelope"]
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    payload = SignedPayload(
        PAYLOAD_TYPE,
        base64.b64decode(envelope["payload"]),
        (("", signature),),
        "x",
        materials={signature: base64.b64encode(material).decode()},
    )
    policy = TrustPolicy(schema=1, name=NAME, identities=(identity,))
    return sigstore_identities.match_signatures(payload, signature, policy, set(), Trials())


def sigstore_material(data: bytes) -> None:
    """Fields beside a signature."""
    _who(data, _identity())


def sigstore_root(data: bytes) -> None:
    """A trusted root of a policy, and what it makes of good material."""
    with suppress(UnicodeDecodeError):
        material = json.dumps(signed()["verificationMaterial"]).encode()
        _who(material, _identity(trusted_root=data.decode()))


def sigstore_file(data: bytes) -> None:
    """Input of `aotc attach`."""
    path = Path(kept_folder().name, "x.sigstore.json")
    path.write_bytes(data)
    sigstore_bundle.read_sigstore(path)


@cache
def stamps() -> tuple[Authority, bytes]:
    """An authority, and its timestamp over a signature."""
    here = authority(Path(kept_folder().name, "authority"))
    return here, base64.b64decode(answer_to(SIGNATURE, here))


def timestamp(data: bytes) -> None:
    """A token, of an authority of the policy or not."""
    policy = TrustPolicy(schema=1, name=NAME, timestamp_authorities=(stamps()[0].trusted(),))
    token = base64.b64encode(data).decode()
    now = (datetime.now(UTC) + timedelta(days=1)).timestamp()
    signature_timestamps.signing_time_of(token, SIGNATURE, policy, Trials(), "x", now)


def authority_certificates(data: bytes) -> None:
    """Of a policy; what they make of a good token."""
    with suppress(UnicodeDecodeError):
        given = TimestampAuthority(certificates=data.decode())
        policy = TrustPolicy(schema=1, name=NAME, timestamp_authorities=(given,))
        raise_if([*signature_timestamps.check_authorities(policy, "x")])
        token = base64.b64encode(stamps()[1]).decode()
        signature_timestamps.signing_time_of(token, SIGNATURE, policy, Trials(), "x", 2.0**33)


@cache
def channel() -> Path:
    """The folder of a channel, published once and rotated once."""
    folder = Path(kept_folder().name, "channel")
    now = datetime.now(UTC)
    signers = {"root": OFFLINE, "targets": RELEASE, "snapshot": ONLINE, "timestamp": ONLINE}
    roles = {name: ({each.key_id: each.public_pem()}, 1) for name, each in signers.items()}
    channel_repository.create(folder, roles, [OFFLINE], now, 365)
    named = channel_repository.Named(f"production/{NAME}", "1.0.0", INDEX)
    found = channel_repository.Repository(folder)
    found.publish(named, [RELEASE], ONLINE, now, 7)
    found.rotate({}, [OFFLINE], now, 365)
    return folder


FILES: Mapping[str, tuple[str, LocalSigner]] = {
    "channel_root": ("2.root.json", OFFLINE),
    "channel_timestamp": (STAMP, ONLINE),
    "channel_snapshot": (SNAPSHOT, ONLINE),
    "channel_targets": (TARGETS, RELEASE),
}
"""Files that whoever serves a channel can change, and the key of each one's role."""


def _host() -> Path:
    """The folder of a host that has seen nothing yet, with a mirror of the channel in it."""
    folder = Path(kept_folder().name, "host")
    if not folder.exists():
        shutil.copytree(channel(), folder / "served")
    shutil.rmtree(folder / "seen", ignore_errors=True)
    return folder


def _ask(folder: Path, root_file: str = f"served/{FIRST_ROOT}") -> None:
    asked = Channel(name="production", source="served", root_file=root_file, state="seen")
    current = channel_client.ask(asked, folder, [NAME])
    raise_if([*channel_client.check_newest(current, NAME, "1.0.0", INDEX)])
    assert all(len(each.root_digest) >= 7 for each in current.listed)


def _served(files: Mapping[str, bytes]) -> None:
    folder = _host()
    try:
        for name, data in files.items():
            (folder / "served" / name).write_bytes(data)
        _ask(folder)
    finally:
        for name in files:
            shutil.copyfile(channel() / name, folder / "served" / name)


def _signed_by(metadata: Metadata[Any], signer: LocalSigner) -> bytes:
    metadata.signatures.clear()
    made = signer.sign(metadata.signed_bytes).hex()
    metadata.signatures[signer.key_id] = Signature(signer.key_id, made)
    return metadata.to_bytes()


def _leading_to(file: str) -> Mapping[str, bytes]:
    """Return the metadata of a file, without its length and hashes."""
    found = {}
    for name in {TARGETS: (SNAPSHOT, STAMP), SNAPSHOT: (STAMP,)}.get(file, ()):
        metadata = Metadata[Any].from_file(str(channel() / name))
        stated = metadata.signed
        for each in [stated.snapshot_meta] if name == STAMP else stated.meta.values():
            each.length = each.hashes = None
        found[name] = _signed_by(metadata, ONLINE)
    return found


def _reader_of(file: str, signer: LocalSigner) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        """As it is, or signed anew by a thief of the key, who has what leads to it fit, too."""
        try:
            stolen = _signed_by(Metadata.from_bytes(data), signer)
        except Exception:  # noqa: BLE001 - what is no metadata is asked about as it is
            _served({file: data})
        else:
            _served({**_leading_to(file), file: stolen})

    return read


def channel_first_root(data: bytes) -> None:
    """Keys and identities of a policy."""
    folder = _host()
    (folder / "first.json").write_bytes(data)
    _ask(folder, "first.json")


def channel_state(data: bytes) -> None:
    """State that a host keeps: as it is, or with the digest that makes it whole."""
    folder = _host()
    (folder / "seen").mkdir()
    place = folder / "seen" / state.STATE
    place.write_bytes(data)
    with suppress(AotcError):
        _ask(folder)
    place.write_bytes(sha256(data).encode() + b"\n" + data)
    _ask(folder)


def seeds() -> Mapping[str, list[bytes]]:
    """By the reader's name."""
    files = {name: [(channel() / file).read_bytes()] for name, (file, _) in FILES.items()}
    folder = _host()
    _ask(folder)
    kept = (folder / "seen" / state.STATE).read_bytes().partition(b"\n")[2]
    return {
        **files,
        "channel_first_root": [(channel() / FIRST_ROOT).read_bytes()],
        "channel_state": [kept],
        "sigstore_material": [json.dumps(signed()["verificationMaterial"]).encode()],
        "sigstore_root": [sigstore().trusted_root().encode()],
        "sigstore_file": [json.dumps(signed()).encode()],
        "timestamp": [stamps()[1]],
        "authority_certificates": [stamps()[0].root.encode()],
    }


READERS: Mapping[str, Callable[[bytes], object]] = {
    **{name: _reader_of(*each) for name, each in FILES.items()},
    **{
        reader.__name__: reader
        for reader in (
            *(channel_first_root, channel_state, sigstore_material, sigstore_root, sigstore_file),
            *(timestamp, authority_certificates),
        )
    },
}
