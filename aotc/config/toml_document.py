"""TOML files with line numbers, so that every finding has its location."""

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aotc.base.errors import BuildManifestError, finding, raise_if, refusal
from aotc.config.manifest_problem import Problem, shorten
from aotc.config.toml_validation import validate
from aotc_runtime.base.canonical_json import decode_toml
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.formats import toml_source
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.system.bundle_files import read_file

SIZE_BYTES_MAX = 4 * 2**20
"""Limit of a file written by hand; the largest of our own has about 2 KB."""

DEPTH_MAX = 100
"""Nesting of tables and arrays: less than Python's recursion limit, more than any real input."""

SUFFIX = ".toml"
"""The suffix of files whose lines messages may show."""

_POSITION = re.compile(r" \((?:at line (\d+), column (\d+)|at end of document)\)\Z")
_PATH = re.compile(r"\((?:'[^']*'(?:, ?)?)+\)")
_REDEFINES = re.compile(r"overwrite|twice|[Dd]uplicate|immutable|redefine|already")


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed TOML file, with its path as the user typed it and the line of each key path."""

    path: Path
    source: bytes
    data: Mapping[str, object]
    lines: Mapping[KeyPath, int]

    def where(self, path: KeyPath) -> str:
        """Return a location: "manifests/digits.toml:12 entry_points.predict.function"."""
        return toml_source.place(self.path, self.lines, path)

    def finding(self, problem: Problem) -> Finding:
        """Return the finding of a problem."""
        where, p = self.where(problem.path), problem
        return finding(p.code, where, p.found, cause=p.cause, expected=p.expected, hint=p.hint)

    def findings(self, problems: Iterable[Problem]) -> list[Finding]:
        """Return the problems in the order of the file, without those that another explains."""
        everything = list(problems)
        explained = {problem.names for problem in everything}
        left = [p for p in everything if p.code != "AOTC-E804" or p.path not in explained]
        left.sort(key=lambda p: (toml_source.line_of(self.lines, p.path), self.where(p.path)))
        return [*map(self.finding, left)]


def read(path: Path, kind: str) -> Document:
    """Read a TOML file; `kind` names it in messages ("build manifest", "target file").

    Raises:
        BuildManifestError: AOTC-E801 cannot be read, AOTC-E802 not TOML, AOTC-E805 a number or a
            nesting out of range, E807 a key or table defined twice, E804 a file of another
            type.
    """
    document = parse_bytes(path, _bytes(path, kind), kind)
    types = [name for name, marks in _MARKS.items() if marks & document.data.keys()]
    if types and kind in _MARKS and kind not in types:
        found, expected, hint = f"a {types[0]}", f"a {kind}", f"pass the {kind}"
        cause, where = "file-is-of-another-type", str(path)
        raise refusal("AOTC-E804", where, found, cause=cause, expected=expected, hint=hint)
    return document


_MARKS = {
    "build manifest": {"entry_points"},
    "target file": {"platform"},
    "trust policy": {"identities", "keys", "threshold"},
}
"""Keys that tell one type of file from the others."""


def parse_bytes(path: Path, source: bytes, kind: str) -> Document:
    """Parse the bytes of a TOML file; `kind` names it in messages.

    Raises:
        BuildManifestError: AOTC-E802 not TOML, AOTC-E805 a number or a nesting out of range,
            AOTC-E807 a key or table defined twice.
    """
    text = _text(path, source, kind)
    try:
        data = decode_toml(text)
    except RecursionError as error:
        raise _too_deep(path) from error
    except ValueError as error:
        # Besides TOMLDecodeError: Python refuses to read integers of more than 4300 digits.
        raise BuildManifestError(_syntax(path, text, error)) from error
    if any(len(keys) > DEPTH_MAX for keys, _ in _walk(data)):
        raise _too_deep(path)
    document = Document(path, source, data, toml_source.key_lines(text))
    raise_if(document.findings(_wide_integers(data)))
    return document


def parse[T](document: Document, model: type[T], folder: Path | None = None) -> T:
    """Validate a document as a section or a model.

    Raises BuildManifestError with all problems that `aotc.config.toml_validation.validate` returns.
    """
    value, problems = validate(document.data, model, folder)
    raise_if(document.findings(problems))
    assert value is not None, "without problems there is a value"
    return value


def require_schema(document: Document, version: int) -> None:
    """Reject a file of another schema before this one is applied to it.

    A missing or mistyped `schema` is left to the model. Raises BuildManifestError (AOTC-E810).
    """
    found = document.data.get("schema")
    if type(found) is int and found != version:
        hint = "use the version of aotc that the file was written for, or rewrite it"
        expected = f"schema = {version}"
        problem = Problem("AOTC-E810", ("schema",), hint, expected=expected, found=str(found))
        raise_if([document.finding(problem)])


def _bytes(path: Path, kind: str) -> bytes:
    try:
        source = read_file(path, SIZE_BYTES_MAX)
    except OSError as error:
        found = error.strerror or str(error)
        raise refusal("AOTC-E801", str(path), found, expected=f"a {kind}") from error
    if len(source) > SIZE_BYTES_MAX:
        cause, expected = "file-exceeds-the-size-limit", f"a {kind} of {SIZE_BYTES_MAX} bytes"
        raise refusal("AOTC-E801", str(path), "", cause=cause, expected=f"{expected} at most")
    return source


def _text(path: Path, source: bytes, kind: str) -> str:
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError as error:
        before = source[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8")) + 1
        raise refusal(
            "AOTC-E802",
            f"{path}:{line}:{column}",
            f"byte 0x{source[error.start]:02x}",
            cause="file-is-not-utf-8",
            expected=f"a {kind}",
            hint=None if path.suffix == SUFFIX else f"pass a {kind} ({SUFFIX})",
        ) from error
    if text.startswith("\ufeff"):
        found, hint = "a byte order mark", "save the file as UTF-8 without a byte order mark"
        raise refusal("AOTC-E802", f"{path}:1:1", found, hint=hint)
    return text


def _syntax(path: Path, text: str, error: ValueError) -> Finding:
    """Return `tomllib`'s error with its location; for a duplicate, also the first one's line."""
    message = _PATH.sub(lambda m: toml_source.render_path(ast.literal_eval(m[0])), str(error))
    place = str(path)
    if not isinstance(error, tomllib.TOMLDecodeError):
        message = "an integer of thousands of digits"
    at = _POSITION.search(message)
    if at:
        message = message[: at.start()]
        lines = text.split("\n")
        number = int(at[1]) if at[1] else len(lines)
        place += f":{number}:{at[2]}" if at[2] else f":{number}"
        line = lines[number - 1].strip()
        # The file may have been named by mistake, and hold a secret.
        if line and path.suffix == SUFFIX:
            message += f", in: {shorten(line)}"
    if not _REDEFINES.search(message):
        hint = "correct the syntax on this line; strings are written in quotes"
        return finding("AOTC-E802", place, message, hint=hint)
    for again in toml_source.redefinitions(text):
        place = f"{path}:{again.second} {toml_source.render_path(again.path)}"
        message = f"first defined on line {again.first}"
        break
    return finding("AOTC-E807", place, message, cause="duplicate-key")


def _too_deep(path: Path) -> AotcError:
    cause = "nesting-is-too-deep"
    return refusal("AOTC-E805", str(path), "", cause=cause, expected=f"at most {DEPTH_MAX} levels")


def _walk(data: Mapping[str, object]) -> Iterable[tuple[KeyPath, object]]:
    """Yield every value with its key path, down to one step deeper than is allowed."""
    pending: list[tuple[KeyPath, object]] = [((), data)]
    while pending:
        path, value = pending.pop()
        yield path, value
        if len(path) > DEPTH_MAX:
            continue
        if isinstance(value, dict):
            pending.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            pending.extend(((*path, index), item) for index, item in enumerate(value))


def _wide_integers(data: Mapping[str, object]) -> Iterable[Problem]:
    """Yield integers of more than TOML's 64 bits, which `tomllib` accepts."""
    for path, value in _walk(data):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield Problem(
                "AOTC-E805",
                path,
                "correct the number",
                expected="an integer from -2^63 to 2^63 - 1",
                found="a larger integer" if value > 0 else "a smaller integer",
            )
