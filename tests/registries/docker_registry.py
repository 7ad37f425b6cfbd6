"""Debian's docker-registry on loopback: open, with passwords, with TLS."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tls_server import tls_context
from tests.waiting import until

REGISTRY, SKOPEO = os.environ.get("AOTC_REGISTRY", ""), os.environ.get("AOTC_SKOPEO", "")
ORAS = os.environ.get("AOTC_ORAS", "")

HTPASSWD = "me:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
"""The password is `secret`."""

MARKS = [
    pytest.mark.registry,
    pytest.mark.skipif(
        not (REGISTRY and SKOPEO), reason="docker-registry and skopeo: make test-registry"
    ),
]


def docker_registry(test: Any) -> Any:
    """Mark a test that needs it."""
    for mark in MARKS:
        test = mark(test)
    return test


@contextmanager
def running(folder: Path, **more: Any) -> Iterator[str]:
    """HOST:PORT of a registry that has nothing yet. more: of its configuration."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    http = {"addr": address, **more.pop("http", {})}
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "stored")}},
        "http": http,
        **more,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yml").write_text(json.dumps(config))
    with (folder / "log").open("w") as log:
        command = [REGISTRY, "serve", str(folder / "config.yml")]
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: _answers(address), "the registry answers", server)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def with_password(folder: Path) -> dict[str, Any]:
    """The configuration of one that lets me:secret in."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "htpasswd").write_text(HTPASSWD)
    return {"auth": {"htpasswd": {"realm": "here", "path": str(folder / "htpasswd")}}}


def with_tls(folder: Path) -> dict[str, Any]:
    """The configuration of one with TLS, whose authority is `ca.pem` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tls_context(folder)
    tls = {"certificate": str(folder / "ca.pem"), "key": str(folder / "tls.key")}
    return {"http": {"tls": tls}}


def _answers(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def skopeo(*arguments: str, **options: Any) -> str:
    """Return what skopeo prints."""
    command = [SKOPEO, "--insecure-policy", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, **options)
    return done.stdout
