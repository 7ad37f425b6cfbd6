"""Credentials of `docker login`: docker's config.json, and the helpers that it names.

https://docs.docker.com/reference/cli/docker/login/#credential-stores. skopeo, podman and oras read
the same file. Secrets are in memory only, and in no message.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.system.bundle_files import read_file
from aotc_serve.http_client import basic_auth
from aotc_serve.oci.oci_references import HUB_NAMES, HUB_SERVER

CONFIG_BYTES_MAX = 2**20
HELPER_SECONDS = 60.0
"""A helper may ask its user for something."""

TOKEN_USER = "<token>"
"""The name by which helpers say that the secret is an identity token."""

DOCKER_HUB = "https://index.docker.io/v1/"
HUB_HOSTS = (*HUB_NAMES, HUB_SERVER)

_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")


class Credentials(Struct, frozen=True):
    """A login; `identity` is a token to exchange at a token server in place of a password."""

    user: str = ""
    password: str = ""
    identity: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, …)"

    @property
    def header(self) -> dict[str, str]:
        """Basic authentication (RFC 7617); none without a password."""
        known = self.user or self.password
        return {"Authorization": basic_auth(self.user, self.password)} if known else {}


NOBODY = Credentials()


class _Entry(Struct):
    auth: str | None = None
    username: str | None = None
    password: str | None = None
    identitytoken: str | None = None


class _Config(Struct):
    """Programs that write Go's values write null for what is empty."""

    auths: dict[str, _Entry | None] | None = None
    credsStore: str | None = None
    credHelpers: dict[str, str] | None = None


class _Given(Struct):
    """The output of a helper."""

    Username: str = ""
    Secret: str = ""


def credentials_for(host: str, environment: Mapping[str, str] = os.environ) -> Credentials:
    """Return the credentials for a host with its port, or `NOBODY`.

    Raises RegistryError (AOTC-E773) for a file or a helper that cannot be used.
    """
    path = _config_file(environment)
    if path is None:
        return NOBODY
    try:
        data = read_file(path, CONFIG_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return NOBODY
    except OSError as error:
        raise _unusable(str(path), error.strerror or str(error)) from error
    try:
        if len(data) > CONFIG_BYTES_MAX:
            raise ValueError(f"more than {CONFIG_BYTES_MAX} bytes")
        config = canonical_json.decoder(_Config).decode(data)
    except (ValueError, RecursionError) as error:
        # The error's own text quotes none of the values.
        raise _unusable(str(path), f"invalid configuration: {error}") from error
    names = _names_of(host)
    helpers = config.credHelpers or {}
    helper = next((helpers[name] for name in names if name in helpers), "")
    if asked := helper or config.credsStore:
        found = _ask(asked, names[-1], environment)
        if found != NOBODY or helper:
            return found
    for place, entry in (config.auths or {}).items():
        if entry is not None and _host_of(place) in names:
            return _read_entry(entry, f"{path} auths {place}")
    return NOBODY


def _config_file(environment: Mapping[str, str]) -> Path | None:
    """Return Docker's configuration file; None for a user without a home directory."""
    if named := environment.get("REGISTRY_AUTH_FILE", ""):
        return Path(named)
    if folder := environment.get("DOCKER_CONFIG", ""):
        return Path(folder, "config.json")
    try:
        home = environment.get("HOME", "") or Path.home()
    except RuntimeError:
        return None
    return Path(home, ".docker", "config.json")


def _names_of(host: str) -> tuple[str, ...]:
    """Return the host's spellings in the file; helpers get the last one."""
    return (*HUB_HOSTS, DOCKER_HUB) if host in HUB_HOSTS else (host,)


def _host_of(place: str) -> str:
    """Old versions of docker wrote URLs."""
    return place.partition("://")[2].partition("/")[0] if "://" in place else place.rstrip("/")


def _read_entry(entry: _Entry, where: str) -> Credentials:
    user, password = entry.username or "", entry.password or ""
    if entry.auth:
        try:
            pair = base64.b64decode(entry.auth, validate=True).decode()
        except ValueError as error:
            raise _unusable(where, "invalid base64 in `auth`") from error
        user, _, password = pair.partition(":")
    return Credentials(user, password.rstrip("\0"), entry.identitytoken or "")


def _ask(helper: str, server: str, environment: Mapping[str, str]) -> Credentials:
    program = f"docker-credential-{helper}"
    if not _HELPER.match(helper):
        raise _unusable(repr(program), "an invalid helper name")
    try:
        done = subprocess.run(
            [program, "get"],
            input=server.encode(),
            capture_output=True,
            timeout=HELPER_SECONDS,
            env=dict(environment),
        )
    except subprocess.TimeoutExpired as error:
        raise _unusable(program, f"no output within {HELPER_SECONDS:g} s") from error
    except OSError as error:
        raise _unusable(program, error.strerror or str(error)) from error
    if done.returncode:
        # They say so on stdout, and nothing else when they know nothing.
        said = done.stdout.decode(errors="replace").strip()
        if "credentials not found" in said:
            return NOBODY
        raise _unusable(program, f"exit code {done.returncode}: {said[:200]!r}")
    try:
        given = canonical_json.decoder(_Given).decode(done.stdout)
    except (ValueError, RecursionError) as error:
        raise _unusable(program, "invalid output of the helper") from error
    if given.Username == TOKEN_USER:
        return Credentials(identity=given.Secret)
    return Credentials(given.Username, given.Secret)


def _unusable(where: str, found: str) -> AotcError:
    return refusal("AOTC-E773", where, found, cause="registry-credentials-are-not-readable")
