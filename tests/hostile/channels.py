"""A channel with keys of its own, and what somebody who serves it may do with its files."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from securesystemslib.signer import Signature
from tls_server import listening
from tuf.api.metadata import Metadata, MetaFile

from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.channel import channel_repository
from aotc.commands.channel.channel_repository import Named
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.trust_policy import Channel
from aotc_serve.channel import channel_client
from aotc_serve.channel.channel_client import Current

INDEX = b"the root index of a bundle"

NEVER = "not refused"


@dataclass(slots=True)
class Deployed:
    """A channel, and a host that asks it. seen: what the host keeps."""

    folder: Path
    root: list[LocalSigner] = field(default_factory=lambda: [LocalSigner.ephemeral()])
    release: list[LocalSigner] = field(default_factory=lambda: [LocalSigner.ephemeral()])
    online: LocalSigner = field(default_factory=LocalSigner.ephemeral)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        online = keys_of([self.online]), 1
        roles = {
            "root": (keys_of(self.root), len(self.root)),
            "targets": (keys_of(self.release), len(self.release)),
            "snapshot": online,
            "timestamp": online,
        }
        channel_repository.create(self.served, roles, self.root, now(), 365)

    @property
    def served(self) -> Path:
        return self.folder / "channel"

    @property
    def first_root(self) -> Path:
        return self.served / "1.root.json"

    def publish(
        self, path: str = "production/digits", version: str = "1.0.0", index: bytes = INDEX,
        when: datetime | None = None,
    ) -> None:  # fmt: skip
        named = Named(path, version, index)
        found = channel_repository.Repository(self.served)
        found.publish(named, self.release, self.online, when or now(), 7)

    def renew(self, when: datetime | None = None) -> None:
        channel_repository.Repository(self.served).publish(None, [], self.online, when or now(), 7)

    def rotate(self, days: int = 365, when: datetime | None = None, **roles: Any) -> None:
        found = channel_repository.Repository(self.served)
        found.rotate(roles, self.root, when or now(), days)

    def channel(self, source: str = "channel", **stated: str) -> Channel:
        given = {"name": "production", "root_file": "channel/1.root.json", "state": "seen"}
        return Channel(source=source, **{**given, **stated})

    def ask(self, source: str = "channel", *names: str, **stated: str) -> Current:
        return channel_client.ask(self.channel(source, **stated), self.folder, names)

    def answer(self, source: str = "channel", **stated: str) -> str:
        """The code with which the host refuses; or `NEVER`."""
        try:
            self.ask(source, **stated)
        except AotcError as error:
            return error.code
        return NEVER

    def kept(self, name: str) -> Path:
        """A copy of the folder as it is now."""
        return Path(shutil.copytree(self.served, self.folder / name))

    def change(self, file: str, change: Any, *signers: LocalSigner) -> None:
        """Change a file, and sign it anew with these keys, as whoever has stolen them can."""
        path = self.served / file
        metadata = Metadata.from_file(str(path))
        change(metadata.signed)
        metadata.signatures.clear()
        for signer in signers:
            made = signer.sign(metadata.signed_bytes).hex()
            metadata.signatures[signer.key_id] = Signature(signer.key_id, made)
        path.write_bytes(metadata.to_bytes())

    def lead_to(self, targets: int) -> None:
        """Have the online key, which is stolen, name the targets metadata that lie there."""
        stamp = self.read("timestamp.json")
        shot = f"{stamp.snapshot_meta.version}.snapshot.json"

        def to_targets(signed: Any) -> None:
            signed.meta["targets.json"] = self._described(targets, "targets")

        def to_snapshot(signed: Any) -> None:
            signed.version += 1
            signed.snapshot_meta = self._described(stamp.snapshot_meta.version, "snapshot")

        self.change(shot, to_targets, self.online)
        self.change("timestamp.json", to_snapshot, self.online)

    def read(self, file: str) -> Any:
        """Return what a file says."""
        return Metadata.from_file(str(self.served / file)).signed

    def _described(self, version: int, role: str) -> MetaFile:
        data = (self.served / f"{version}.{role}.json").read_bytes()
        return MetaFile.from_data(version, data, ["sha256"])


def keys_of(signers: list[LocalSigner]) -> dict[str, str]:
    return {signer.key_id: signer.public_pem() for signer in signers}


def now() -> datetime:
    return datetime.now(UTC)


def ago(**span: int) -> datetime:
    return now() - timedelta(**span)


def files_of(deployed: Deployed) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return what an honest server answers."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        path = deployed.served / request.path.lstrip("/")
        if not path.is_file():
            request.send_error(404)
            return
        request.send_response(200)
        request.end_headers()
        request.wfile.write(path.read_bytes())

    return answer


@contextmanager
def serving(answer: Any) -> Iterator[str]:
    """A server for as long as this lasts, its URL. answer: is called with each request."""

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # or a body waits 40 ms for the client to have its head

        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            """Silent."""

    with listening(Handler) as port:
        yield f"http://127.0.0.1:{port}/"
