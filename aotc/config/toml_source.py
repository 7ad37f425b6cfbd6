"""Where a key stands in a TOML file. `tomllib` tells values but no lines.

`key_lines` is a scanner over the text, not a second parser: it only ever runs on files that
`tomllib` has accepted, follows tables, dotted and quoted keys, inline tables and arrays, and maps
every key path to the line on which it is written. A path is a tuple of keys and array indices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def render_path(path: Path) -> str:
    """A key path for people: entry_points.predict.inputs.image.shape[0]."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step if _BARE.fullmatch(step) else json.dumps(step)
            text += f".{plain}" if text else plain
    return text


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a path, or of the nearest enclosing key that the file has; 1 for the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def key_lines(text: str) -> dict[Path, int]:
    """The line number (from 1) of every key path of a valid TOML document."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.arrays: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip(newlines=True):
            if self.text.startswith("[[", self.at):
                table = self._header("[[", "]]")
                index = self.arrays.get(table, -1) + 1
                self.arrays[table] = index
                self._note(table)
                table = (*table, index)
                self._note(table)
            elif self.text[self.at] == "[":
                table = self._header("[", "]")
                self._note(table)
            else:
                self._pair(table)
        return self.lines

    def _note(self, path: Path) -> None:
        self.lines.setdefault(path, self.text.count("\n", 0, self.at) + 1)

    def _skip(self, *, newlines: bool) -> bool:
        """Skip white space and comments; whether anything is left."""
        blank = " \t\r\n" if newlines else " \t"
        while self.at < len(self.text):
            if self.text[self.at] in blank:
                self.at += 1
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return True
        return False

    def _header(self, opening: str, closing: str) -> Path:
        self.at += len(opening)
        keys = self._keys()
        self.at += len(closing)
        path: Path = ()
        for position, key in enumerate(keys):
            path = (*path, key)
            if position < len(keys) - 1 and path in self.arrays:
                path = (*path, self.arrays[path])
        return path

    def _keys(self) -> list[str]:
        keys = [self._key()]
        while self._skip(newlines=False) and self.text[self.at] == ".":
            self.at += 1
            keys.append(self._key())
        return keys

    def _key(self) -> str:
        self._skip(newlines=False)
        if self.text[self.at] in "\"'":
            return self._string()
        match = _BARE.match(self.text, self.at)
        assert match, "tomllib accepted this key"
        self.at = match.end()
        return match.group()

    def _string(self) -> str:
        """Move past a string; its value for one-line strings, which is all that keys can be."""
        quote = self.text[self.at]
        if self.text.startswith(quote * 3, self.at):
            self.at += 3
            while not self.text.startswith(quote * 3, self.at):
                self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
            # Up to two further quotes belong to the string's end.
            self.at += 3
            while self.text.startswith(quote, self.at):
                self.at += 1
            return ""
        start = self.at
        self.at += 1
        while self.text[self.at] != quote:
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += 1
        raw = self.text[start : self.at]
        if quote == "'":
            return raw[1:-1]
        import tomllib

        return str(tomllib.loads(f"k = {raw}")["k"])

    def _pair(self, table: Path) -> None:
        start = self.at
        keys = self._keys()
        path = table
        end, self.at = self.at, start
        for key in keys:
            path = (*path, key)
            self._note(path)
        self.at = end
        self._skip(newlines=False)
        self.at += 1
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip(newlines=False)
        character = self.text[self.at]
        if character in "\"'":
            self._string()
        elif character == "[":
            self.at += 1
            index = 0
            while self._skip(newlines=True) and self.text[self.at] != "]":
                if self.text[self.at] == ",":
                    self.at += 1
                    continue
                self._note((*path, index))
                self._value((*path, index))
                index += 1
            self.at += 1
        elif character == "{":
            self.at += 1
            while self._skip(newlines=True) and self.text[self.at] != "}":
                if self.text[self.at] == ",":
                    self.at += 1
                    continue
                self._pair(path)
            self.at += 1
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}\r\n#":
                self.at += 1
