"""A TOML file with its lines, and every problem in it as a Finding that says where it stands."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from aotc.config import toml_source
from aotc.errors import BuildManifestError, raise_if
from aotc_runtime.errors import Finding

SIZE_BYTES_MAX = 4 * 2**20
"""A file people write by hand; the largest of our own has about 2 KB."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed TOML file. shown: the path as the user typed it.  lines: key path to line."""

    path: Path
    shown: str
    data: dict[str, Any]
    lines: dict[toml_source.Path, int]

    def where(self, path: toml_source.Path) -> str:
        """ "manifests/digits.toml:12 entry_points.predict.function"."""
        line = toml_source.line_of(self.lines, path)
        return f"{self.shown}:{line} {toml_source.render_path(path)}".rstrip()

    def finding(
        self, code: str, path: toml_source.Path, *, expected: str, found: str, hint: str
    ) -> Finding:
        return Finding(code=code, where=self.where(path), expected=expected, found=found, hint=hint)


def read(path: Path, kind: str) -> Document:
    """Read a TOML file. kind: what it should be, for messages ("build manifest", "target file").

    Raises BuildManifestError: AOTC-E801 if it cannot be read, AOTC-E802 if it is not TOML.
    """

    def refuse(code: str, expected: str, found: str, hint: str, line: str = "") -> None:
        raise BuildManifestError(
            Finding(code=code, where=f"{path}{line}", expected=expected, found=found, hint=hint)
        )

    try:
        if path.is_file() and path.stat().st_size > SIZE_BYTES_MAX:
            refuse(
                "AOTC-E801",
                f"a {kind} of at most {SIZE_BYTES_MAX} bytes",
                f"{path.stat().st_size} bytes",
                "is this the right file?",
            )
        text = path.read_bytes().decode("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        refuse(
            "AOTC-E801",
            f"a readable {kind}",
            f"{error.strerror or error}",
            "check the path; `aotc build` takes the TOML file",
        )
    except UnicodeDecodeError as error:
        refuse(
            "AOTC-E802",
            "UTF-8 text",
            f"byte 0x{error.object[error.start]:02x} at offset {error.start}",
            f"save the file as UTF-8; if this is not a TOML file, pass the {kind}",
        )
    except tomllib.TOMLDecodeError as error:
        # Python 3.14 gives lineno and colno; before, they are only in the message.
        line = str(error).rpartition("(at line ")[2].split(",")[0]
        refuse(
            "AOTC-E802",
            "valid TOML",
            str(error),
            "correct the syntax there",
            f":{line}" if line.isdigit() else "",
        )
    # tomllib reads CRLF as LF, and so must the line count.
    return Document(path, str(path), data, toml_source.key_lines(text.replace("\r\n", "\n")))


_HINTS = {
    "missing": ("AOTC-E804", "add the key"),
    "extra_forbidden": ("AOTC-E803", "remove the key, or correct its name"),
}


def parse[M: BaseModel](document: Document, model: type[M]) -> M:
    """Validate a document as a model. Raises BuildManifestError with a Finding for each problem:
    AOTC-E803 unknown key, AOTC-E804 missing key, AOTC-E805 wrong type or value.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise_if(_findings(document, model, error))
        raise AssertionError("a ValidationError has errors") from error


def _findings(document: Document, model: type[BaseModel], error: ValidationError) -> list[Finding]:
    findings = []
    for problem in error.errors(include_url=False):
        path = tuple(problem["loc"])
        code, hint = _HINTS.get(problem["type"], ("AOTC-E805", "correct the value"))
        if code == "AOTC-E803":
            known = sorted(_fields_at(model, path[:-1]))
            close = difflib.get_close_matches(str(path[-1]), known, 1)
            if close:
                hint = f"did you mean {close[0]}?"
            expected, found = f"one of {', '.join(known)}", f"the unknown key {path[-1]}"
        elif code == "AOTC-E804":
            expected, found = f"the key {path[-1]}", "no such key"
        else:
            expected = _expectation(problem)
            found = _show(problem["input"])
        findings.append(document.finding(code, path, expected=expected, found=found, hint=hint))
    return sorted(findings, key=lambda f: (f.where, f.code))


def _expectation(problem: Any) -> str:
    message: str = problem["msg"]
    for prefix in ("Input should be ", "Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    if problem["type"] == "string_pattern_mismatch":
        return (
            "a name of letters, digits, '.', '_' and '-' that starts with a letter or digit, "
            "at most 128 characters"
        )
    return message


def _show(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _fields_at(model: type[BaseModel], path: Iterable[Any]) -> set[str]:
    """The keys that the model allows at a path."""
    from typing import get_args

    current: Any = model
    for step in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(str(step))
            if field is None:
                return set()
            current = field.annotation
        candidates = [current, *get_args(current)]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        current = models[0] if models else current
    if isinstance(current, type) and issubclass(current, BaseModel):
        return {field.alias or name for name, field in current.model_fields.items()}
    return set()
