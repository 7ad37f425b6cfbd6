"""Where a channel's metadata comes from: a folder, or an HTTP server. Nothing is believed here.

python-tuf bounds what it takes of each file; these bound what is read, and for how long.
"""

from __future__ import annotations

import queue
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tuf.api.exceptions import DownloadError, DownloadHTTPError, SlowRetrievalError
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface

from aotc_runtime.system.bundle_files import read_file

SECONDS = 60.0
"""How long all files of a channel may take together."""

SILENCE_SECONDS = 10.0
"""How long a server may say nothing."""

MOST_BYTES = UpdaterConfig().targets_max_length
"""The largest file that python-tuf takes, 5 MB."""

SERVERS = ("http://", "https://")

NOT_FOUND = 404


def is_server(source: str) -> bool:
    """Whether a source is a URL; else it is a folder."""
    return source.startswith(SERVERS)


def fetcher_for(source: str, folder: Path) -> tuple[FetcherInterface, str]:
    """What fetches a channel's files, and the URL below which it does. folder: relative to which a
    source that is one is looked for.
    """
    if is_server(source):
        return Server(SECONDS), source
    return Mirror(folder / source), "mirror:"


class Mirror(FetcherInterface):
    """A folder with the files as they lie on a server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _fetch(self, url: str) -> Iterator[bytes]:
        name = urllib.parse.unquote(url.rpartition("/")[2])
        if "/" in name:  # which metadata of a role may name
            raise DownloadError(f"{name} is no name of a file")
        try:
            return iter((read_file(self._folder / name, MOST_BYTES),))
        except FileNotFoundError as error:
            raise DownloadHTTPError(f"no file {name}", NOT_FOUND) from error


class Server(FetcherInterface):
    """A server, asked without following redirects. seconds: for all files together: whoever sends
    a byte now and then keeps nobody waiting for longer.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._opener = urllib.request.build_opener(_NoRedirects)

    def _fetch(self, url: str) -> Iterator[bytes]:
        answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        # It ends with the process: neither the head nor the body of an answer can be given up else.
        threading.Thread(target=self._ask, args=(url, answers), daemon=True).start()
        try:
            answer = answers.get(timeout=max(0.0, self._until - time.monotonic()))
        except queue.Empty:
            answer = SlowRetrievalError(f"no whole answer in time from {url}")
        if isinstance(answer, Exception):
            raise answer
        return iter((answer,))

    def _ask(self, url: str, answers: queue.SimpleQueue[bytes | Exception]) -> None:
        try:
            with self._opener.open(url, timeout=SILENCE_SECONDS) as response:
                answers.put(response.read(MOST_BYTES + 1))
        except urllib.error.HTTPError as error:
            answers.put(DownloadHTTPError(f"HTTP {error.code} {error.reason}", error.code))
        except (OSError, ValueError, HTTPException) as error:
            answers.put(DownloadError(f"{url}: {error}"))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A policy names who is asked, and nobody else does."""

    def redirect_request(self, *_: Any) -> None:
        return None
