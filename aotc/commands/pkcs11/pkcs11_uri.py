"""PKCS#11 URIs: which token, which key in it, and which library speaks to it.

https://www.rfc-editor.org/rfc/rfc7512. Attributes that this reader does not know are refused rather
than ignored, since each of them narrows what the URI means.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from aotc.base.errors import refusal
from aotc_runtime.base.errors import AotcError

SCHEME = "pkcs11:"

WHERE = "PKCS#11 URI"
"""The place that errors name; a URI may hold what should not be printed."""

TOKEN_ATTRIBUTES = ("token", "serial", "manufacturer", "model", "slot-id")
KEY_ATTRIBUTES = ("object", "id", "type")
QUERY_ATTRIBUTES = ("module-path", "pin-source")


@dataclass(frozen=True, slots=True)
class Pkcs11Uri:
    """A key in a token.

    module: the shared library.  token: attributes the token must have, by their names in the URI.
    label, id: of the key; None if the URI leaves them open.  pin_source: a file with the PIN.
    """

    module: str
    token: dict[str, str]
    label: str | None
    id: bytes | None
    pin_source: Path | None


def parse_uri(uri: str) -> Pkcs11Uri:
    """Read a PKCS#11 URI. Raises UsageError (AOTC-E017); its text never repeats a PIN."""
    path, _, query = uri[len(SCHEME) :].partition("?")
    found = _attributes(path, ";", TOKEN_ATTRIBUTES + KEY_ATTRIBUTES)
    asked = _attributes(query, "&", QUERY_ATTRIBUTES)
    if found.get("type", "private") != "private":
        raise _error("type=private, or no type", f"type={found['type']}")
    if not ({"object", "id"} & found.keys()):
        raise _error("object=… or id=…, the key's label or id", "neither")
    if not asked.get("module-path"):
        raise _error("?module-path=…, the library that speaks to the token", "none")
    return Pkcs11Uri(
        module=unquote(asked["module-path"]),
        token={name: unquote(found[name]) for name in TOKEN_ATTRIBUTES if name in found},
        label=unquote(found["object"]) if "object" in found else None,
        id=unquote_to_bytes(found["id"]) if "id" in found else None,
        pin_source=_pin_file(asked["pin-source"]) if "pin-source" in asked else None,
    )


def _attributes(text: str, separator: str, known: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(separator) if text else []:
        name, equals, value = part.partition("=")
        if name == "pin-value":
            raise refusal("AOTC-E017", WHERE, "pin-value", cause="pin-in-the-pkcs-11-uri")
        if not equals or name not in known:
            raise _error("one of: " + ", ".join(known), name or "an empty attribute")
        if name in found:
            raise _error("each attribute once", f"{name} twice")
        found[name] = value
    return found


def _pin_file(source: str) -> Path:
    """Return a path, or a file: URI without a host."""
    parts = urlsplit(source)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise _error("pin-source=file:/… or a path", parts.scheme or parts.netloc)
    path = unquote(parts.path if parts.scheme else source)
    if not path or path.startswith("|"):
        raise _error("pin-source=file:/… or a path", "a command" if path else "an empty one")
    return Path(path)


def _error(expected: str, found: str) -> AotcError:
    return refusal("AOTC-E017", WHERE, found, expected=expected)
