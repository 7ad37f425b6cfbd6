"""References to repositories: `oci://HOST[:PORT]/REPOSITORY[:TAG][@DIGEST]`.

The names are those of https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from aotc_runtime.base.digest import is_digest
from aotc_runtime.base.errors import AotcError, refusal

SCHEME = "oci://"

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Registries there are asked without TLS, as other tools do; nowhere else is anything sent so."""

HUB_NAMES, HUB_SERVER = ("docker.io", "index.docker.io"), "registry-1.docker.io"

_HOST = re.compile(
    r"(\[[0-9A-Fa-f:]{2,}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?\Z"
)
_REPOSITORY = re.compile(
    r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*\Z"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
REPOSITORY_CHARACTERS_MAX = 255


class Reference(Struct, frozen=True):
    """A reference to a registry; `host` includes the port, `tag` and `digest` may be empty."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{SCHEME}{self.host}/{self.repository}{tag}{digest}"

    @property
    def hostname(self) -> str:
        """The host without its port."""
        return _HOST.match(self.host)[1]  # type: ignore[index]  # `parse` has matched it

    @property
    def server(self) -> str:
        """Return the registry's host with its port; Docker Hub's differs from its name."""
        return HUB_SERVER if self.host in HUB_NAMES else self.host

    @property
    def origin(self) -> str:
        """The base URL of the registry."""
        plain = self.hostname.lower() in LOOPBACK
        return f"{'http' if plain else 'https'}://{self.server}"

    @property
    def name(self) -> str:
        """The name of the manifest: the digest, or else the tag."""
        return self.digest or self.tag

    def at(self, digest: str) -> Reference:
        """Return this reference, pinned to a digest."""
        return replace(self, tag="", digest=digest)


def is_reference(place: object) -> bool:
    """Return whether a text is a reference to a registry, not a file."""
    return isinstance(place, str) and place.startswith(SCHEME)


def parse(text: str) -> Reference:
    """Raises RegistryError (AOTC-E771)."""
    if not is_reference(text):
        raise _malformed(text, "no scheme oci://")
    host, _, rest = text.removeprefix(SCHEME).partition("/")
    if "@" in host:
        # Whatever stands on a command line is seen by every process of this host.
        shown = f"{SCHEME}…@{host.rpartition('@')[2]}/{rest}"
        raise refusal("AOTC-E771", _ascii(shown), "", cause="password-in-the-registry-reference")
    if not _HOST.match(host) or int(host.rpartition(":")[2] if _has_port(host) else 0) > 65535:
        raise _malformed(text, "no host" if not host else "an invalid host")
    named, at, digest = rest.partition("@")
    if at and not is_digest(digest):
        raise _malformed(text, "an invalid digest")
    repository, colon, tag = named.partition(":")
    if not _REPOSITORY.match(repository) or len(repository) > REPOSITORY_CHARACTERS_MAX:
        raise _malformed(text, "no repository" if not repository else "an invalid repository")
    if colon and not _TAG.match(tag):
        raise _malformed(text, "an invalid tag")
    return Reference(host, repository, tag, digest)


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")


def _malformed(text: str, found: str) -> AotcError:
    return refusal("AOTC-E771", _ascii(text), found)


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
