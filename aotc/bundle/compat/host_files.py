"""Reading what `aotc host-info` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.base.errors import finding, raise_if
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.host_facts_json import KIND, SCHEMA, HostDocument
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.system.bundle_files import read_file

SIZE_BYTES_MAX = 2**20
"""The document of a machine with eight GPUs has about 3 KB."""


class _Head(Struct):
    """The beginning of the document of every schema."""

    kind: str = ""
    schema: int = 0


def read_hosts(paths: Sequence[Path]) -> dict[str, HostFacts]:
    """The hosts by name, which is the file's without its suffix, in the order given.

    Raises UsageError (AOTC-E053): every file that cannot be read, is no description of a host, of
    another schema, or has the name of another one.
    """
    hosts: dict[str, HostFacts] = {}
    findings: list[Finding] = []
    for path in paths:
        read = _read(path)
        if isinstance(read, Finding):
            findings.append(read)
        elif path.stem in hosts:
            findings.append(_finding(path, "a name of its own", f"a second {path.stem}"))
        else:
            hosts[path.stem] = read
    raise_if(findings)
    return hosts


def _read(path: Path) -> HostFacts | Finding:
    try:
        data = read_file(path, SIZE_BYTES_MAX)
        if len(data) > SIZE_BYTES_MAX:
            return _finding(path, f"at most {SIZE_BYTES_MAX} bytes", "a larger file")
        head = msgspec.json.decode(data, type=_Head)
        if (head.kind, head.schema) != (KIND, SCHEMA):
            found = f"kind {head.kind or 'none'}, schema {head.schema}"
            return _finding(path, f"kind {KIND}, schema {SCHEMA}", found)
        return msgspec.json.decode(data, type=HostDocument).facts
    except OSError as error:
        return _finding(path, "a readable file", error.strerror or str(error))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _finding(path, "the JSON document that host-info prints", str(error))


def _finding(path: Path, expected: str, found: str) -> Finding:
    return finding("AOTC-E053", str(path), found, expected=expected)
