"""Blobs of a repository: sent in chunks, fetched in ranges, and resumed."""

import re
from http import HTTPStatus
from typing import Protocol

from aotc_runtime.base.errors import refusal
from aotc_serve.http_client import NO_PROGRESS, Body, Progress, Response
from aotc_serve.oci.registry_client import PULL, PUSH, Repository, RetryableError

WRONG_SIZE = "registry-sent-a-wrong-size"
"""The cause of AOTC-E203 for responses of a wrong size."""

CHUNK_BYTES = 16 * 2**20
"""A piece of an upload; smaller blobs are sent in one request. S3 asks for at least 5 MiB."""

READ_BYTES = 256 * 2**10

_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,18})\Z")
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)\Z")


class Sink(Protocol):
    """Destination of a blob."""

    def size_written(self) -> int:
        """Return the number of bytes that are present, from the start."""

    def restart(self) -> None:
        """Drop what is there."""

    def write(self, data: bytes) -> None:
        """Append. Raises AotcError if the place has no room."""

    def digest(self) -> str:
        """Return the digest of the bytes that are there."""


def push_blob(
    repository: Repository,
    digest: str,
    data: memoryview,
    sources: tuple[str, ...] = (),
    progress: Progress = NO_PROGRESS,
    chunk_bytes: int = CHUNK_BYTES,
) -> bool:
    """Put a blob into a repository; return whether it was sent.

    `sources` are other repositories of the registry that may have it.
    """
    if repository.has_blob(digest, progress):
        return False
    begun = ""
    for source in sources:
        begun = _mount(repository, digest, source, progress)
        if not begun:
            return False
    upload = _Upload(repository, digest, data, progress, chunk_bytes, begun)
    repository.trying(upload.go_on, upload.progressed)
    return True


def _mount(repository: Repository, digest: str, source: str, progress: Progress) -> str:
    """Mount a blob from another repository; return "", or the upload that began."""
    place = repository.with_query("blobs/uploads/", mount=digest, **{"from": source})

    def work() -> str:
        # Another purpose: a token has to be for both repositories.
        with repository.ask("POST", place, f"{PUSH} {source}", progress, Body(b"")) as response:
            repository.require(response, HTTPStatus.CREATED, HTTPStatus.ACCEPTED)
            created = response.status == HTTPStatus.CREATED
            return "" if created else repository.upload_place(response, place)

    return repository.trying(work)


class _Upload:
    """An upload that goes on after each break, from the last chunk that the registry has."""

    def __init__(
        self,
        repository: Repository,
        digest: str,
        data: memoryview,
        progress: Progress,
        chunk_bytes: int,
        begun: str,
    ) -> None:
        self._repository, self._digest, self._data = repository, digest, data
        self._progress, self._chunk = progress, chunk_bytes
        self._place, self._at, self._is_new = begun, 0, True
        self._furthest = self._before = 0

    def progressed(self) -> bool:
        """Return whether more bytes have arrived than at any failure before."""
        before, self._before = self._before, max(self._before, self._furthest)
        return self._furthest > before

    def go_on(self) -> None:
        if self._place and not self._is_new:
            self._look()
        if not self._place:
            self._begin()
        self._is_new = False
        if len(self._data) > self._chunk:
            while self._at < len(self._data):
                self._send_chunk()
            self._commit(b"")
        else:
            self._commit(self._data)

    def _begin(self) -> None:
        repository = self._repository
        with repository.ask("POST", "blobs/uploads/", PUSH, self._progress, Body(b"")) as response:
            repository.require(response, HTTPStatus.ACCEPTED)
            self._place, self._at = repository.upload_place(response, "blobs/uploads/"), 0
            least = response.header("OCI-Chunk-Min-Length")
            if least.isascii() and least.isdigit() and len(least) < 12:
                self._chunk = max(self._chunk, int(least))

    def _look(self) -> None:
        """Set the upload's offset; start anew if it is small or the registry has dropped it."""
        repository, place = self._repository, self._place
        if len(self._data) <= self._chunk:
            self._place = ""
            return
        with repository.ask("GET", place, PUSH, self._progress) as response:
            if response.status in (HTTPStatus.NO_CONTENT, HTTPStatus.ACCEPTED):
                self._at = self._range(response, 0)
                if response.header("Location"):
                    self._place = repository.upload_place(response, place)
                return
            if 400 <= response.status < 500 and response.status not in (408, 425, 429):
                self._place = ""
                return
            repository.require(response)

    def _range(self, response: Response, otherwise: int) -> int:
        """Return the number of bytes that the registry states, else `otherwise` (AOTC-E775)."""
        found = _RANGE.match(response.header("Range"))
        # "0-0" is said of nothing as well as of one byte; no chunk of ours has one.
        have = otherwise if found is None else int(found[1]) + 1 if int(found[1]) else 0
        if have > len(self._data):
            where = f"{self._repository.where}@{self._digest}"
            raise refusal(
                "AOTC-E775",
                where,
                f"an upload of {have} bytes",
                cause="registry-response-is-invalid",
                expected=f"at most {len(self._data)} bytes",
            )
        return have

    def _send_chunk(self) -> None:
        repository, start = self._repository, self._at
        view = self._data[start : start + self._chunk]
        extra = {"Content-Range": f"{start}-{start + len(view) - 1}"}
        body = Body(view)
        with repository.ask(
            "PATCH", self._place, PUSH, self._progress, body, extra=extra
        ) as response:
            if response.status in (
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                HTTPStatus.NOT_FOUND,
            ):
                raise RetryableError(f"{response.status_line} for a chunk of an upload")
            repository.require(response, HTTPStatus.ACCEPTED, HTTPStatus.CREATED)
            self._at = self._range(response, start + len(view))
            self._place = repository.upload_place(response, self._place)
        if self._at <= start:
            raise RetryableError("a chunk of an upload that was accepted, and is not there")
        self._furthest = max(self._furthest, self._at)

    def _commit(self, data: bytes | memoryview) -> None:
        repository = self._repository
        place = repository.with_query(self._place, digest=self._digest)
        body = Body(data)
        with repository.ask("PUT", place, PUSH, self._progress, body, commits=True) as response:
            if response.status == HTTPStatus.NOT_FOUND:
                self._place = ""
                raise RetryableError(f"{response.status_line} for the end of an upload")
            repository.require(response, HTTPStatus.CREATED)


def fetch_blob(
    repository: Repository, digest: str, size: int, sink: Sink, progress: Progress = NO_PROGRESS
) -> None:
    """Fetch a blob into a sink, resuming where that ends, and check its size and digest.

    Raises RegistryError (AOTC-E772 to E775), IntegrityError (AOTC-E201, E203), and what the sink
    raises.
    """
    where = f"{repository.where}@{digest}"
    resumed = sink.size_written() > 0
    if sink.size_written() > size:
        sink.restart()
    while True:
        if sink.size_written() < size or size == 0:
            furthest = [sink.size_written()]

            def progressed(furthest: list[int] = furthest) -> bool:
                before, furthest[0] = furthest[0], max(furthest[0], sink.size_written())
                return furthest[0] > before

            repository.trying(lambda: _read(repository, digest, size, sink, progress), progressed)
        found = sink.digest()
        if found == digest:
            return
        if not resumed:
            sink.restart()
            cause = "registry-sent-wrong-bytes"
            raise refusal("AOTC-E201", where, found, cause=cause, expected=digest)
        # What an earlier process has left may be what is wrong.
        sink.restart()
        resumed = False


def _read(repository: Repository, digest: str, size: int, sink: Sink, progress: Progress) -> None:
    """Read the rest of a blob into the sink, as far as this connection delivers it."""
    where = f"{repository.where}@{digest}"
    start = sink.size_written()
    extra = {"Range": f"bytes={start}-"} if start else {}
    with repository.ask("GET", f"blobs/{digest}", PULL, progress, extra=extra) as response:
        if start and response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            sink.restart()
            raise RetryableError(f"{response.status_line} for the rest of a blob")
        repository.require(
            response, HTTPStatus.OK, *([HTTPStatus.PARTIAL_CONTENT] if start else [])
        )
        repository.require_plain(response, f"blob {digest}")
        if response.status == HTTPStatus.OK and start:
            sink.restart()
            start = 0
        stated = response.size
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            found = _CONTENT_RANGE.match(response.header("Content-Range"))
            if found is None or int(found[1]) != start or found[3] not in ("*", str(size)):
                said = (response.header("Content-Range") or "none")[:80]
                raise refusal(
                    "AOTC-E775",
                    where,
                    f"Content-Range {said!r}",
                    cause="registry-response-is-invalid",
                    expected=f"bytes from {start} of {size}",
                )
        if stated is not None and stated != size - start:
            expected = f"{size - start} bytes"
            raise refusal(
                "AOTC-E203", where, f"{stated} bytes", cause=WRONG_SIZE, expected=expected
            )
        left = size - start
        while piece := response.read(min(READ_BYTES, left + 1)):
            if len(piece) > left:
                raise refusal(
                    "AOTC-E203", where, "more", cause=WRONG_SIZE, expected=f"{size} bytes"
                )
            sink.write(piece)
            left -= len(piece)
        if left:
            raise RetryableError(f"broken off, {left} bytes before the end")
