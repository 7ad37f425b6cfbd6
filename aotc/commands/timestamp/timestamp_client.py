"""Ask an authority for RFC 3161 timestamps of signatures."""

import base64
import json
import shlex
import subprocess
from http import HTTPStatus
from typing import Any

from aotc.base.errors import refusal
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.limits import TIMESTAMP_CHARACTERS_MAX
from aotc_runtime.formats import in_toto
from aotc_serve.http_client import Body, HttpClient

SECONDS = 60
"""For a whole response of an authority."""

TIMESTAMP_BYTES_MAX = TIMESTAMP_CHARACTERS_MAX // 4 * 3
"""The largest timestamp that verifiers read: their limit counts base64."""


def add_timestamps(authority: str, envelope: bytes, key_id: str) -> bytes:
    """Return the envelope with a timestamp beside each signature of this key that has none.

    authority: an http(s) URL, or a command that reads a query and writes the answer. An envelope
    that has nothing to add is returned as it is. Raises UsageError (AOTC-E026).
    """
    document = json.loads(envelope)
    missing = [
        each
        for each in document["signatures"]
        if each.get("keyid") == key_id and not each.get("timestamp")
    ]
    for signature in missing:
        made = in_toto.decode_base64(signature["sig"], where="signature")
        signature["timestamp"] = base64.b64encode(_timestamp(made, authority)).decode()
    return canonical_json.encode(document) if missing else envelope


def _timestamp(signature: bytes, authority: str) -> bytes:
    """Return an authority's answer about a signature: granted, and an answer to this question."""
    try:
        import rfc3161_client
    except ImportError as error:
        cause = "rfc3161-client-is-not-installed"
        raise refusal("AOTC-E026", _where(authority), str(error), cause=cause) from error
    asked = rfc3161_client.TimestampRequestBuilder(
        data=signature, hash_algorithm=rfc3161_client.base.HashAlgorithm.SHA256
    ).build()
    data = _ask(asked.as_bytes(), authority)
    try:
        answer = rfc3161_client.decode_timestamp_response(data)
        if answer.status != 0:
            raise _refusal(authority, f"status {answer.status}: {', '.join(answer.status_string)}")
        told = answer.tst_info
        same = told.message_imprint.message == asked.message_imprint.message
    except ValueError as error:
        raise _invalid(authority, str(error)) from error
    if not same or told.nonce != asked.nonce:
        raise _invalid(authority, "a timestamp of another query")
    if len(data) > TIMESTAMP_BYTES_MAX:
        raise _invalid(authority, f"{len(data)} bytes, more than {TIMESTAMP_BYTES_MAX}")
    return data


def _ask(query: bytes, authority: str) -> bytes:
    if authority.startswith(("http://", "https://")):
        return _over_http(query, authority)
    try:
        command = shlex.split(authority)
        done: Any = subprocess.run(
            command, input=query, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise _refusal(authority, str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise _refusal(authority, f"exit code {done.returncode}: {' '.join(said)}")
    answer: bytes = done.stdout
    return answer


def _over_http(query: bytes, url: str) -> bytes:
    kind = {"Content-Type": "application/timestamp-query"}
    data = bytearray()
    try:
        client = HttpClient(total_seconds=SECONDS)
        with client.request("POST", url, kind, Body(query)) as response:
            if response.status != HTTPStatus.OK:
                raise ConnectionError(response.status_line)
            while piece := response.read(TIMESTAMP_CHARACTERS_MAX - len(data)):
                data += piece
    except (OSError, ValueError) as error:
        raise _refusal(url, str(error)) from error
    return bytes(data)


def _refusal(authority: str, found: str) -> AotcError:
    return refusal("AOTC-E026", _where(authority), found)


def _invalid(authority: str, found: str) -> AotcError:
    return refusal("AOTC-E026", _where(authority), found, cause="timestamp-response-is-invalid")


def _where(authority: str) -> str:
    return f"--timestamp {authority}"
