"""Lines of keys in a TOML file: `tomllib` gives values but no lines.

`key_lines` scans the text for keys and nothing else, so it is no second parser: values are skipped,
and whether the file is valid is for `tomllib` to say. It gives an answer for any text, at any
nesting. A key path is a tuple of keys and array indices.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

type KeyPath = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(
    r'''
      (?P<long>""" (?: [^"\\] | \\. | "{1,2}(?!") )*+ "{3,5}
             | \'\'\' (?: [^'] | '{1,2}(?!') )*+ '{3,5})
    | (?P<quoted>" (?: [^"\\\n] | \\. )*+ " | '[^'\n]*+')
    | (?P<newline>\n)
    | (?P<blank>[ \t\r]+ | \#[^\n]*)
    | (?P<bare>[A-Za-z0-9_-]+)
    | (?P<other>.)
    ''',
    re.VERBOSE | re.DOTALL,
)
_VALUE_ENDS = frozenset("\n,]}")


@dataclass(frozen=True, slots=True)
class Redefinition:
    """A key path written twice, with the lines of both."""

    path: KeyPath
    first: int
    second: int


def render_path(path: KeyPath) -> str:
    """Return a key path for people: entry_points.predict.inputs.image.shape[0]."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step if _BARE.fullmatch(step) else json.dumps(step, ensure_ascii=False)
            text += f".{plain}" if text else plain
    return text


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a path, or of its nearest enclosing key; 1 for the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def place(file: object, lines: Mapping[KeyPath, int], path: KeyPath) -> str:
    """Return a location such as "manifests/digits.toml:12 entry_points.predict.function"."""
    return f"{file}:{line_of(lines, path)} {render_path(path)}".rstrip()


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of every key path; for a table, of its header."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.implied | scanner.written


def redefinitions(text: str) -> tuple[Redefinition, ...]:
    """Return the keys and tables that a text defines more than once, which `tomllib` refuses."""
    scanner = _Scanner(text)
    scanner.scan()
    return tuple(scanner.redefined)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind != "blank":
            yield _Token(kind, match.group(), line)
        line += match.group().count("\n")


def _key(token: _Token) -> str:
    if token.kind == "bare":
        return token.text
    try:
        return next(iter(tomllib.loads(f"{token.text} = 0")))
    except tomllib.TOMLDecodeError:
        return token.text


@dataclass(slots=True)
class _Frame:
    """A table or an array the scan is in; `index` is of an array's next item, None for a table."""

    path: KeyPath
    index: int | None = None


class _Scanner:
    """A scan with paths that have a line of their own, and tables that only longer keys imply."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.written: dict[KeyPath, int] = {}
        self.implied: dict[KeyPath, int] = {}
        self.redefined: list[Redefinition] = []
        self.latest: dict[KeyPath, int] = {}

    def scan(self) -> None:
        frames = [_Frame(())]
        while self.at < len(self.tokens):
            token = self._take()
            frame = frames[-1]
            if token.text in ("\n", ","):
                continue
            if token.text in ("]", "}"):
                del frames[max(1, len(frames) - 1) :]
            elif token.text == "[" and len(frames) == 1:
                frames = [_Frame(self._header())]
            elif frame.index is None:
                path = self._keys(frame.path, [token, *self._until("=")])
                if self.at < len(self.tokens) and self.tokens[self.at].text != "\n":
                    self._value(path, self._take(), frames)
            else:
                path = (*frame.path, frame.index)
                frame.index += 1
                self._write(path, token.line)
                self._value(path, token, frames)

    def _take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _until(self, mark: str) -> list[_Token]:
        """Return the tokens of this line before a mark; moves past the mark."""
        start = self.at
        while self.at < len(self.tokens) and self.tokens[self.at].text not in (mark, "\n"):
            self.at += 1
        end = self.at
        if end < len(self.tokens) and self.tokens[end].text == mark:
            self.at += 1
        return self.tokens[start:end]

    def _header(self) -> KeyPath:
        """Return the path of the table that a `[header]` or `[[header]]` opens."""
        is_item = self.at < len(self.tokens) and self.tokens[self.at].text == "["
        path = self._keys((), self._until("]"), is_item=is_item)
        if not is_item:
            return path
        self._until("]")
        index = self.latest[path] = self.latest.get(path, -1) + 1
        item = (*path, index)
        self._write(item, self.tokens[self.at - 1].line)
        return item

    def _keys(self, base: KeyPath, tokens: list[_Token], *, is_item: bool = False) -> KeyPath:
        """Note a dotted key. Keys after an array of tables belong to its latest item."""
        keys = [token for token in tokens if token.kind in ("bare", "quoted")]
        path = base
        for token in keys[:-1]:
            path = (*path, _key(token))
            self.implied.setdefault(path, token.line)
            if path in self.latest:
                path = (*path, self.latest[path])
        for token in keys[-1:]:
            path = (*path, _key(token))
            if is_item:
                self.implied.setdefault(path, token.line)
            else:
                self._write(path, token.line)
        return path

    def _write(self, path: KeyPath, line: int) -> None:
        if path in self.written:
            self.redefined.append(Redefinition(path, self.written[path], line))
        self.written.setdefault(path, line)

    def _value(self, path: KeyPath, first: _Token, frames: list[_Frame]) -> None:
        """Enter an array or an inline table; skip any other value."""
        if first.text == "[":
            frames.append(_Frame(path, 0))
        elif first.text == "{":
            frames.append(_Frame(path))
        else:
            while self.at < len(self.tokens) and self.tokens[self.at].text not in _VALUE_ENDS:
                self.at += 1
