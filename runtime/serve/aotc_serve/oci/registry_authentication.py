"""Authentication to a registry: none, a password, or a token.

https://distribution.github.io/distribution/spec/auth/token/ and …/auth/oauth/. A password is sent
to the registry that it is for, or to the token server which that registry names, over TLS; a token
only to the registry that it is for. On loopback alone both may be without TLS, at the same place.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import AotcError, refusal
from aotc_serve.http_client import Body, HttpClient, Progress
from aotc_serve.oci.docker_credentials import NOBODY, Credentials

TOKEN_BYTES_MAX = 2**20
CHALLENGE_CHARACTERS_MAX = 8192
FORM = "application/x-www-form-urlencoded"

_PARAMETER = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s",]+))')


class _Token(Struct, frozen=True):
    token: str | None = None
    access_token: str | None = None


class Login:
    """The authentication to one registry, shared by threads.

    `origin` is the registry's, `where` is for messages, and `given` returns the credentials once
    the registry needs some.
    """

    def __init__(
        self, http: HttpClient, origin: str, where: str, given: Callable[[], Credentials]
    ) -> None:
        self._http, self._origin, self._where, self._given = http, origin, where, given
        self._lock = threading.Lock()
        self._known: Credentials | None = None
        self._headers: dict[str, dict[str, str]] = {}

    def header(self, purpose: str) -> dict[str, str]:
        """Return the current authorization header for a purpose."""
        with self._lock:
            return self._headers.get(purpose, {})

    def authenticate(
        self, purpose: str, challenge: str, refused: dict[str, str], progress: Progress
    ) -> None:
        """Get credentials after the registry rejected a request with this header.

        Raises RegistryError (AOTC-E773) if there is nothing that it would take, or E772 and what
        the client raises if its token server does not answer.
        """
        with self._lock:
            if self._headers.get(purpose, {}) != refused:
                return  # another thread has asked meanwhile
            kind, _, rest = challenge[:CHALLENGE_CHARACTERS_MAX].partition(" ")
            if kind.lower() == "bearer":
                token = self._token(rest, progress)
                found = {"Authorization": f"Bearer {token}"}
            elif kind.lower() == "basic" and self._credentials().header:
                found = self._credentials().header
            else:
                raise self._refusal(f"HTTP 401, {kind or 'no'} authentication")
            if found == refused:
                raise self._refusal("HTTP 401 with credentials")
            self._headers[purpose] = found

    def _credentials(self) -> Credentials:
        if self._known is None:
            self._known = self._given()
        return self._known

    def _token(self, challenge: str, progress: Progress) -> str:
        asked = {name: quoted or bare for name, quoted, bare in _PARAMETER.findall(challenge)}
        realm = asked.get("realm", "")
        self._require_safe(realm)
        credentials = self._credentials()
        known = [("service", asked["service"])] if "service" in asked else []
        known += [("scope", scope) for scope in asked.get("scope", "").split()]
        headers, body, method = credentials.header, None, "GET"
        if credentials.identity:
            form = [("grant_type", "refresh_token"), ("client_id", "aotc"), *known]
            form += [("refresh_token", credentials.identity)]
            body, method = Body(urlencode(form).encode()), "POST"
            headers = {"Content-Type": FORM}
        else:
            realm += f"{'&' if '?' in realm else '?'}{urlencode(known)}"
        with self._http.request(method, realm, headers, body, progress) as response:
            data = bytearray()
            while len(data) <= TOKEN_BYTES_MAX and (piece := response.read(TOKEN_BYTES_MAX)):
                data += piece
            status = response.status_line
        if response.status in (401, 403) or (response.status == 400 and credentials != NOBODY):
            raise self._refusal(f"{status} by the token server")
        if response.status != 200:
            raise ConnectionError(f"{status} by the token server")
        try:
            given = canonical_json.decoder(_Token).decode(bytes(data))
        except (ValueError, RecursionError) as error:
            raise self._invalid("no token in the response") from error
        token = given.token or given.access_token
        if not token or not token.isascii() or not token.isprintable():
            raise self._invalid("no token in the response")
        return token

    def _require_safe(self, realm: str) -> None:
        """Require TLS of a token server, unless it is the registry itself on loopback."""
        try:
            parts = urlsplit(realm)
            place, secrets = f"{parts.scheme}://{parts.netloc}", parts.username
        except ValueError:
            place, secrets, parts = "", None, urlsplit("")
        if secrets is not None or parts.fragment or not parts.netloc:
            raise self._invalid("an invalid address")
        if parts.scheme != "https" and place != self._origin:
            raise self._invalid("an address without TLS")

    def _refusal(self, found: str) -> AotcError:
        return refusal("AOTC-E773", self._where, found)

    def _invalid(self, found: str) -> AotcError:
        return refusal("AOTC-E773", self._where, found, cause="registry-token-server-is-invalid")
