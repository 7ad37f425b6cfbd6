"""Sources of a channel's metadata: a folder, or an HTTP server. Nothing is trusted here.

python-tuf bounds what it takes of each file; these bound what is read, and for how long.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote

from tuf.api.exceptions import DownloadError, DownloadHTTPError, SlowRetrievalError
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface

from aotc_runtime.system.bundle_files import read_file
from aotc_serve.http_client import HttpClient

SECONDS = 60.0
"""Timeout of all files of a channel together."""

STALL_SECONDS = 10.0
"""Stall timeout of a server that sends nothing, or next to nothing."""

MOST_BYTES = UpdaterConfig().targets_max_length
"""The largest file that python-tuf takes, 5 MB."""

SERVERS = ("http://", "https://")


def fetcher_for(source: str, folder: Path) -> tuple[FetcherInterface, str]:
    """Return a channel's fetcher and base URL; a source that is a path is below `folder`."""
    if source.startswith(SERVERS):
        return Server(SECONDS), source
    return Mirror(folder / source), "mirror:"


class Mirror(FetcherInterface):
    """A folder with the files as they lie on a server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _fetch(self, url: str) -> Iterator[bytes]:
        name = unquote(url.rpartition("/")[2])
        if "/" in name:  # which metadata of a role may name
            raise DownloadError(f"{name} is no name of a file")
        try:
            return iter((read_file(self._folder / name, MOST_BYTES),))
        except FileNotFoundError as error:
            raise DownloadHTTPError(f"no file {name}", HTTPStatus.NOT_FOUND) from error


class Server(FetcherInterface):
    """An HTTP server that rejects redirects, because the policy alone names the source.

    `seconds` is the timeout of all files together.
    """

    def __init__(self, seconds: float) -> None:
        self._http = HttpClient(stall_seconds=STALL_SECONDS, total_seconds=seconds)

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            with self._http.request("GET", url, {}) as response:
                if response.status != HTTPStatus.OK:
                    raise DownloadHTTPError(response.status_line, response.status)
                while data := response.read(MOST_BYTES):
                    yield data
        except TimeoutError as error:
            raise SlowRetrievalError(f"{url}: {error}") from error
        except (OSError, ValueError) as error:
            raise DownloadError(f"{url}: {error}") from error
