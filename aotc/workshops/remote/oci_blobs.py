"""Blobs in a repository of an OCI registry: an entry is a tag, whose manifest has one layer.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md; registries say how they
want to be asked for tokens: https://distribution.github.io/distribution/spec/auth/token/.
"""

from __future__ import annotations

import json
import re
import threading
from http import HTTPStatus
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from aotc.cache.bounded import SECONDS, Limit, OutageError, Pace
from aotc.workshops.remote.http_blobs import REPLY_BYTES_MAX
from aotc.workshops.remote.http_requests import Http, Reply, basic, without_secrets
from aotc_runtime.digest import is_digest, sha256

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ENTRY = "application/vnd.aotc.cache-entry.v1"
EMPTY = "application/vnd.oci.empty.v1+json"
EMPTY_DATA = b"{}"

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Registries there are asked without TLS, as other tools do."""

REDIRECTS_MAX = 3

_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class _Descriptor(Struct, frozen=True):
    digest: str
    size: int


class _Manifest(Struct, frozen=True):
    layers: tuple[_Descriptor, ...]


class _Token(Struct, frozen=True):
    token: str = ""
    access_token: str = ""


def layer_of(manifest: bytes) -> str | None:
    """The digest of the one layer that the manifest of an entry has; None for other documents."""
    try:
        (layer,) = msgspec.json.decode(manifest, type=_Manifest).layers
    except (ValueError, RecursionError):  # MsgspecError is a ValueError
        return None
    return layer.digest if is_digest(layer.digest) else None


class OciBlobs:
    """Blobs in oci://HOST/REPOSITORY; `user:password@` is for the registry or its token server."""

    seconds = SECONDS

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        scheme = "http" if parts.hostname in LOOPBACK else "https"
        path = f"/v2/{parts.path.strip('/')}/"
        self._base = urlunsplit(SplitResult(scheme, without_secrets(parts).netloc, path, "", ""))
        self._password = basic(parts)
        self._http = Http()
        self._lock = threading.Lock()
        self._authorization: dict[str, str] = {}

    def read(self, name: str, limit: Limit, pace: Pace) -> bytes | None:
        """The bytes under a name, up to the limit; None if there are none. What is there and is no
        entry of ours is an empty one.
        """
        manifest = self._ask("GET", f"manifests/{name}", pace, accept=MANIFEST).found()
        if manifest is None:
            return None
        digest = layer_of(manifest)
        return self._ask("GET", f"blobs/{digest}", pace, limit=limit).found() if digest else b""

    def write(self, name: str, data: bytes, pace: Pace) -> None:
        """Put bytes under a name, replacing what was there."""
        self._push(EMPTY_DATA, pace)
        self._push(data, pace)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": ENTRY,
            "config": _descriptor(EMPTY, EMPTY_DATA),
            "layers": [_descriptor(ENTRY, data)],
        }
        body = json.dumps(manifest, separators=(",", ":")).encode()
        reply = self._ask("PUT", f"manifests/{name}", pace, data=body, kind=MANIFEST)
        if reply.status != HTTPStatus.CREATED:
            raise reply.outage()

    def _push(self, data: bytes, pace: Pace) -> None:
        """Upload in one piece, unless it is there."""
        digest = sha256(data)
        if self._ask("HEAD", f"blobs/{digest}", pace).status == HTTPStatus.OK:
            return
        reply = self._ask("POST", "blobs/uploads/", pace, data=b"")
        location = reply.headers.get("Location")
        if reply.status != HTTPStatus.ACCEPTED or location is None:
            raise reply.outage()
        joint = "&" if "?" in location else "?"
        place = f"{location}{joint}{urlencode({'digest': digest})}"
        reply = self._ask("PUT", place, pace, data=data)
        if reply.status != HTTPStatus.CREATED:
            raise reply.outage()

    def _ask(
        self,
        method: str,
        place: str,
        pace: Pace,
        *,
        data: bytes | None = None,
        accept: str = "",
        kind: str = "",
        limit: Limit = REPLY_BYTES_MAX,
    ) -> Reply:
        """Ask the registry; with a new token if it wants one, elsewhere if it says so. place:
        relative to the repository, or as the registry gave it.
        """
        url, headers = urljoin(self._base, place), {}
        if accept:
            headers["Accept"] = accept
        if kind:
            headers["Content-Type"] = kind
        reply = self._once(method, url, headers, data, limit, pace)
        if reply.status == HTTPStatus.UNAUTHORIZED and self._is_registry(url):
            self._authorize(reply.headers.get("WWW-Authenticate", ""), pace)
            reply = self._once(method, url, headers, data, limit, pace)
        for _ in range(REDIRECTS_MAX):
            location = reply.headers.get("Location")
            if method != "GET" or not 300 <= reply.status < 400 or location is None:
                break
            # Registries send readers of blobs to where these are stored.
            url = urljoin(url, location)
            reply = self._once(method, url, headers, data, limit, pace)
        return reply

    def _once(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        data: bytes | None,
        limit: Limit,
        pace: Pace,
    ) -> Reply:
        if urlsplit(url).scheme not in ("http", "https"):
            raise OutageError(f"sent to {urlsplit(url).scheme}:")
        with self._lock:
            authorization = self._authorization if self._is_registry(url) else {}
        return self._http.ask(
            method, url, {**headers, **authorization}, data, limit=limit, pace=pace
        )

    def _is_registry(self, url: str) -> bool:
        """Nobody else is given a password or a token."""
        ours, theirs = urlsplit(self._base), urlsplit(url)
        return (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)

    def _authorize(self, challenge: str, pace: Pace) -> None:
        """What the next requests say of us. Raises OutageError if there is nothing to say."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic" and self._password:
            found = self._password
        elif kind.lower() == "bearer":
            found = {"Authorization": f"Bearer {self._token(rest, pace)}"}
        else:
            raise OutageError(f"HTTP 401: {kind or 'no'} authentication is asked for")
        with self._lock:
            self._authorization = found

    def _token(self, challenge: str, pace: Pace) -> str:
        asked = dict(_PARAMETER.findall(challenge))
        realm = asked.pop("realm", "")
        if urlsplit(realm).scheme != "https" and not self._is_registry(realm):
            raise OutageError("its token server is not asked, for it has no TLS")
        known = {name: asked[name] for name in ("service", "scope") if name in asked}
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(known)}"
        reply = self._http.ask("GET", url, self._password, limit=REPLY_BYTES_MAX, pace=pace)
        if reply.status != HTTPStatus.OK:
            raise reply.outage()
        try:
            given = msgspec.json.decode(reply.body, type=_Token)
        except msgspec.MsgspecError as error:
            raise OutageError("its token server gave no token") from error
        return given.token or given.access_token


def _descriptor(media_type: str, data: bytes) -> dict[str, str | int]:
    return {"mediaType": media_type, "digest": sha256(data), "size": len(data)}
