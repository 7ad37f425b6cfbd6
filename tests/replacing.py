"""Versions of a bundle, and clients that ask while one takes the place of another."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from hostile.archives import on_disk
from hostile.tampering import in_memory, signed, take_apart
from served import Client

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text

X = np.random.default_rng(2).random((8, 64), np.float32)
INPUTS = {"image": ("FP32", X)}


class Versions:
    """The same program as several versions, signed by one key. trust: a policy for it."""

    def __init__(self, bundle: Path, folder: Path) -> None:
        self._bundle, self._folder = bundle, folder
        self._signer = LocalSigner.ephemeral()
        self.trust = folder / "policy.toml"
        self.trust.write_text(policy_text("digits", [self._signer.public_pem()]))

    def write(self, version: str, place: Path) -> None:
        """Put this version where a server looks, at once."""
        documents = take_apart(in_memory(self._bundle))
        documents.manifest["version"] = version
        made = self._folder / version
        made.mkdir()
        on_disk(signed(documents, self._signer), "archive", made).replace(place)
        made.rmdir()


@contextmanager
def asking(served: Client, expected: bytes) -> Iterator[list[tuple[int, str]]]:
    """Clients that ask without a pause; what they got: statuses and versions."""
    got: list[tuple[int, str]] = []
    wrong: list[Any] = []
    ended = threading.Event()

    def ask() -> None:
        connection = served.connect()
        while not ended.is_set():
            try:
                status, document, outputs = served.infer("digits", INPUTS, connection)
            except Exception as error:  # noqa: BLE001 - told by the test
                wrong.append(error)
                return
            got.append((status, document.get("model_version", "")))
            if outputs.get("probabilities") != expected:
                wrong.append(document)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield got
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert {status for status, _ in got} == {200}
