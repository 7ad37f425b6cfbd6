"""One repository of an OCI registry: manifests, blobs, uploads and referrers, each by one function.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md. What breaks is tried again,
later each time, as long as that may help; what is refused is not. Redirects are followed for blobs
that are read, and carry nothing that says who asks.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Self
from urllib.parse import urlencode, urljoin, urlsplit

from msgspec import Struct

from aotc_runtime.base import first_line, limits
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.formats import oci_layout
from aotc_serve.http_client import NO_PROGRESS, Body, HttpClient, Progress, Response
from aotc_serve.oci.docker_credentials import Credentials, credentials_for
from aotc_serve.oci.oci_references import LOOPBACK, Reference
from aotc_serve.oci.registry_authentication import Login

ACCEPTED = f"{oci_layout.INDEX_TYPE}, {oci_layout.MANIFEST_TYPE}"
COMMIT_SECONDS = 600.0
"""For the response to the end of an upload: registries hash or copy all of it before that."""

INVALID = "registry-response-is-invalid"
"""The cause of AOTC-E775 for responses that do not follow the OCI distribution specification."""

REDIRECTS_MAX = 5
LOGINS_MAX = 2
PATIENCE_SECONDS = 300.0
"""Total time of retries of a failing request, unless the caller sets one."""

LATER = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses after which the same request may do better."""

_NO_API = frozenset(
    {
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.MOVED_PERMANENTLY,
        HTTPStatus.FOUND,
        HTTPStatus.SEE_OTHER,
        HTTPStatus.TEMPORARY_REDIRECT,
        HTTPStatus.PERMANENT_REDIRECT,
    }
)
"""Statuses of a registry that has no list of what is asked for."""

PULL, PUSH = "pull", "push"


class RetryableError(Exception):
    """A request failed and may succeed after `seconds`, the delay that the registry requests."""

    def __init__(self, text: str, seconds: float | None = None) -> None:
        super().__init__(text)
        self.seconds = seconds


class RetryLimits(Struct, frozen=True):
    """Retries of a request, with exponential backoff and jitter, in seconds.

    A registry without progress for `patience` seconds is given up, whatever delay it requests.
    """

    most: int = 6
    first: float = 0.5
    longest: float = 20.0
    patience: float = PATIENCE_SECONDS

    def pause(self, failures: int) -> float:
        """After so many failures in a row."""
        wanted: float = min(self.longest, self.first * 2.0 ** (failures - 1))
        return wanted * random.uniform(0.5, 1.0)


PATIENT = RetryLimits()
ONCE = RetryLimits(most=1)


class Stored(Struct, frozen=True):
    """A manifest from a registry, and the digest of these bytes."""

    digest: str
    data: bytes


class Repository:
    """A repository; threads may share it. Close it, or use it in a `with` statement."""

    def __init__(
        self,
        place: Reference,
        http: HttpClient | None = None,
        credentials: Callable[[], Credentials] | None = None,
        tries: RetryLimits = PATIENT,
    ) -> None:
        self.place, self.tries, self.commit_seconds = place, tries, COMMIT_SECONDS
        self.where = f"{place.host}/{place.repository}"
        self.http = http or HttpClient()
        given = credentials or (lambda: credentials_for(place.host))
        # Who names an authority means TLS, on loopback too.
        self._origin = f"https://{place.server}" if self.http.has_own_ca else place.origin
        self._login = Login(self.http, self._origin, self.where, given)
        self._base = f"{self._origin}/v2/{place.repository}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs; idle connections go."""
        self.http.close()

    def manifest(
        self, name: str, most: int = limits.MANIFEST_BYTES_MAX, progress: Progress = NO_PROGRESS
    ) -> Stored | None:
        """Return the manifest of a tag or digest, or None.

        Raises RegistryError (AOTC-E772, E773, E774) and IntegrityError (AOTC-E201).
        """

        def work() -> Stored | None:
            with self.ask("GET", f"manifests/{name}", PULL, progress, accept=ACCEPTED) as response:
                if response.status == HTTPStatus.NOT_FOUND:
                    return None
                self.require(response, HTTPStatus.OK)
                data = self.read(response, most, f"manifest {name}")
            return Stored(sha256(data), data)

        found = self.trying(work)
        if found is not None and ":" in name and found.digest != name:
            where, cause = f"{self.where}@{name}", "registry-sent-wrong-bytes"
            raise refusal("AOTC-E201", where, found.digest, cause=cause, expected=name)
        return found

    def put_manifest(
        self, name: str, data: bytes, media_type: str, progress: Progress = NO_PROGRESS
    ) -> bool:
        """Store a manifest by tag or digest; return whether the registry lists it as a referrer."""

        def work() -> bool:
            body = Body(data)
            with self.ask(
                "PUT", f"manifests/{name}", PUSH, progress, body, kind=media_type
            ) as response:
                self.require(response, HTTPStatus.CREATED)
                return bool(response.header("OCI-Subject"))

        return self.trying(work)

    def has_blob(self, digest: str, progress: Progress = NO_PROGRESS) -> bool:
        """Return whether the registry has a blob, by its own account."""

        def work() -> bool:
            with self.ask("HEAD", f"blobs/{digest}", PULL, progress) as response:
                if response.status == HTTPStatus.NOT_FOUND:
                    return False
                self.require(response, HTTPStatus.OK)
                return True

        return self.trying(work)

    def document(self, path: str, most: int) -> tuple[bytes, str] | None:
        """Return another document, and the link to the next page; None if not found.

        A registry without the API answers with a web page, or redirects to one.
        """

        def work() -> tuple[bytes, str] | None:
            with self.ask("GET", path, PULL, accept=oci_layout.INDEX_TYPE) as response:
                if response.status in _NO_API or _is_page(response):
                    return None
                self.require(response, HTTPStatus.OK)
                return self.read(response, most, path), response.header("Link")

        return self.trying(work)

    def trying[T](self, work: Callable[[], T], progressed: Callable[[], bool] | None = None) -> T:
        """Repeat work while a later try may succeed, and return its result.

        `progressed` says whether the last try made progress, which earns as many more. Raises
        RegistryError: AOTC-E772 in the end, E775 for other exceptions of a request; and AotcError
        and InterruptedError as the work raises them.
        """
        failures, waited = 0, 0.0
        while True:
            try:
                return work()
            except (AotcError, InterruptedError):
                raise
            except (RetryableError, OSError) as error:
                if progressed and progressed():
                    failures, waited = 0, 0.0
                failures += 1
                if failures >= self.tries.most or isinstance(error, ssl.SSLCertVerificationError):
                    raise self._gone(error, failures) from error
                pause = self.tries.pause(failures)
                if isinstance(error, RetryableError) and error.seconds is not None:
                    pause = max(pause, error.seconds)
                waited += pause
                if waited > self.tries.patience:
                    raise self._gone(error, failures) from error
            except Exception as error:
                # Libraries fail in many ways on answers that no registry gives.
                said = f"{type(error).__name__}: {first_line(error)}"
                raise refusal("AOTC-E775", self.where, said, cause=INVALID) from error
            self.http.wait(pause)

    def require(self, response: Response, *wanted: int) -> None:
        """Raise unless the response has one of these statuses.

        RetryableError, or RegistryError (AOTC-E773 not authorized, E774 not found, E775 rejected).
        """
        if response.status in wanted:
            return
        if response.status in LATER:
            raise RetryableError(response.status_line, _retry_after(response.header("Retry-After")))
        said = self._error_message(response)
        if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise refusal("AOTC-E773", self.where, said)
        if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise refusal("AOTC-E774", self.where, said)
        raise refusal("AOTC-E775", self.where, said)

    def read(self, response: Response, most: int, what: str) -> bytes:
        """Return a whole response. Raises RegistryError (AOTC-E775) if it is larger, or encoded."""
        self.require_plain(response, what)
        data = bytearray()
        while piece := response.read(min(2**20, most + 1 - len(data))):
            data += piece
            if len(data) > most:
                expected = f"at most {most} bytes"
                where = f"{self.where} {what}"
                raise refusal("AOTC-E775", where, "more", cause=INVALID, expected=expected)
        return bytes(data)

    def require_plain(self, response: Response, what: str) -> None:
        """Raise RegistryError (AOTC-E775) for an encoded body, whose digest differs."""
        coding = response.header("Content-Encoding").strip().lower()
        if coding not in ("", "identity"):
            raise refusal(
                "AOTC-E775",
                f"{self.where} {what}",
                f"Content-Encoding: {coding[:40]}",
                cause=INVALID,
                hint="turn off compression in the registry, or in the proxy before it",
            )

    @contextmanager
    def ask(
        self,
        method: str,
        place: str,
        purpose: str,
        progress: Progress = NO_PROGRESS,
        body: Body | None = None,
        *,
        accept: str = "",
        kind: str = "",
        extra: dict[str, str] | None = None,
        commits: bool = False,
    ) -> Iterator[Response]:
        """Yield a response of the registry, after authentication.

        `place` is below the repository, or as the registry gave it. `purpose` is the needed scope,
        "pull" or "push", or more. `commits` ends an upload.
        """
        url = urljoin(self._base, place)
        headers = {"Accept": accept} if accept else {}
        if body is not None:
            headers["Content-Type"] = kind or "application/octet-stream"
        headers |= extra or {}
        seconds = max(self.commit_seconds, self.http.stall_seconds) if commits else None
        for left in reversed(range(LOGINS_MAX + 1)):
            said = self._login.header(purpose)
            response = self.http.request(method, url, {**headers, **said}, body, progress, seconds)
            with response:
                if response.status == HTTPStatus.UNAUTHORIZED and left:
                    challenge = response.header("WWW-Authenticate")
                elif method == "GET" and 300 <= response.status < 400 and "blobs/" in place:
                    break
                else:
                    yield response
                    return
            self._login.authenticate(purpose, challenge, said, progress)
        with self._follow(response, url, headers, progress) as elsewhere:
            yield elsewhere

    @contextmanager
    def _follow(
        self, response: Response, url: str, headers: dict[str, str], progress: Progress
    ) -> Iterator[Response]:
        """Yield the response of a blob's storage, which gets no credentials."""
        for _ in range(REDIRECTS_MAX):
            url = self._safe(self._join(url, response.header("Location")))
            with self.http.request("GET", url, headers, None, progress) as response:
                if not 300 <= response.status < 400:
                    yield response
                    return
        raise self._unsafe(f"more than {REDIRECTS_MAX} redirects")

    def _unsafe(self, found: str) -> AotcError:
        return refusal("AOTC-E775", self.where, found, cause="registry-redirect-is-not-safe")

    def _safe(self, url: str) -> str:
        """Return a URL with TLS, or one on loopback that a registry there redirects to."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            raise self._unsafe("an invalid address") from None
        shown = f"[{host}]" if ":" in host else host
        plain = self._origin.startswith("http:") and shown in LOOPBACK
        if parts.scheme not in ("https", "http") or not host:
            raise self._unsafe(f"scheme {parts.scheme}:")
        if parts.scheme == "http" and not plain:
            raise self._unsafe(f"{host} without TLS")
        return url

    def _join(self, base: str, location: str) -> str:
        try:
            return urljoin(base, location)
        except ValueError:
            raise self._unsafe("an invalid address") from None

    def upload_place(self, response: Response, url: str) -> str:
        """Return the URL where an upload continues. Raises RegistryError (AOTC-E775)."""
        location = response.header("Location")
        if not location:
            found = f"{response.status_line} without Location"
            raise refusal("AOTC-E775", self.where, found, cause=INVALID)
        found = self._join(self._join(self._base, url), location)
        ours, theirs = urlsplit(self._base), urlsplit(found)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            raise self._unsafe(f"an upload to {theirs.netloc}")
        return found

    def with_query(self, url: str, **query: str) -> str:
        """Return the URL with more query parameters."""
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"

    def _error_message(self, response: Response) -> str:
        """Return the registry's error message, without what cannot be printed."""
        text = bytearray()
        try:
            while len(text) < 512 and (piece := response.read(512)):
                text += piece
        except OSError:
            pass
        said = " ".join(bytes(text[:512]).decode(errors="replace").split())
        said = "".join(c for c in said if c.isprintable())[:200]
        return (
            f"{response.status_line}: {said}" if said and "<" not in said else response.status_line
        )

    def _gone(self, error: Exception, failures: int) -> AotcError:
        tries = f", {failures} times" if failures > 1 else ""
        kind = "" if isinstance(error, RetryableError) else f"{type(error).__name__}: "
        stalled = "transfer-stalled" if isinstance(error, TimeoutError) else ""
        cause = "registry-is-overloaded" if isinstance(error, RetryableError) else stalled
        return refusal("AOTC-E772", self.where, f"{kind}{first_line(error)}{tries}", cause=cause)


def _is_page(response: Response) -> bool:
    kind = response.header("Content-Type").partition(";")[0]
    return kind.strip().lower() == "text/html"


def _retry_after(text: str) -> float | None:
    """RFC 9110, 10.2.3: seconds, or a date."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        wanted = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if wanted.tzinfo is None:
        return None
    return max(0.0, (wanted - datetime.now(UTC)).total_seconds())
