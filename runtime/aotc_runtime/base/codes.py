"""The catalogue of the runtime's error codes: texts from a data file, exception classes by range.

`error_codes.toml` holds the texts. A load that succeeds neither imports this module nor reads that
file: `aotc_runtime.base.errors` does both when there is something to report.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from aotc_runtime.base.errors import (
    AotcError,
    BackendError,
    BundleFormatError,
    Finding,
    IncompatibleHostError,
    IncompatibleRuntimeError,
    IntegrityError,
    ReadinessError,
    RegistryError,
    ResourceError,
    ShapeError,
    TrustError,
)


class ServerError(AotcError):
    """AOTC-E76x, E78x: a server that rejects a request, or cannot start.

    Defined here, and not beside the others, because nothing that loads a bundle raises it.
    """

    exit_code = 2


class Cause(Struct, frozen=True, forbid_unknown_fields=True):
    """Texts for one cause of an error, in Markdown.

    `{name}` in `hint` and `expected` stands for a value that the call site gives; literal braces
    are doubled there.

    Attributes:
        title: At most eight words, for every message.
        explanation: One to three sentences, for the page of error codes and `aotc explain`.
        hint: What to do, as an imperative; empty where the title already says it.
        expected: What messages say was expected unless the call site says it; may be empty.
    """

    title: str
    explanation: str
    hint: str = ""
    expected: str = ""

    def finding(
        self,
        code: str,
        where: str,
        found: str,
        expected: str | None,
        hint: str | None,
        values: Mapping[str, object],
    ) -> Finding:
        """Return a finding with these texts, except those that the call site replaces."""
        return Finding(
            code=code,
            where=where,
            expected=self.expected.format_map(values) if expected is None else expected,
            found=found,
            hint=self.hint.format_map(values) if hint is None else hint,
            title=self.title,
        )


def readable(text: str) -> str:
    """Return a text of the catalogue for readers: each placeholder is its name in capitals."""
    return text.format_map(_Names())


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name.upper()


class Code(Cause, frozen=True, forbid_unknown_fields=True):
    """Texts for one code, and for each of its causes, which inherit nothing from it."""

    causes: dict[str, Cause] = {}

    def of(self, cause: str) -> Cause:
        """Return the texts of a cause; of the code itself for the empty name."""
        return self.causes[cause] if cause else self


class Family(NamedTuple):
    """The codes that one exception class, with its exit code, stands for.

    Attributes:
        error: The exception class.
        prefixes: What its codes begin with.
        title: The heading on the page of error codes.
    """

    error: type[AotcError]
    prefixes: tuple[str, ...]
    title: str

    @property
    def ranges(self) -> str:
        """The codes in short: "E50x, E51x"."""
        return ", ".join(p.removeprefix("AOTC-").ljust(4, "x") for p in self.prefixes)


FAMILIES: tuple[Family, ...] = (
    Family(BundleFormatError, ("AOTC-E1",), "bundle format"),
    Family(IntegrityError, ("AOTC-E2",), "integrity"),
    Family(TrustError, ("AOTC-E3",), "trust"),
    Family(IncompatibleRuntimeError, ("AOTC-E4",), "runtime"),
    Family(IncompatibleHostError, ("AOTC-E50", "AOTC-E51"), "host"),
    Family(ResourceError, ("AOTC-E55",), "resources"),
    Family(ResourceError, ("AOTC-E56",), "stores"),
    Family(ShapeError, ("AOTC-E6",), "calls"),
    Family(ReadinessError, ("AOTC-E70",), "readiness"),
    Family(BackendError, ("AOTC-E75",), "backend"),
    Family(ServerError, ("AOTC-E76", "AOTC-E78"), "server"),
    Family(RegistryError, ("AOTC-E77",), "registries"),
)


def read_codes(path: Path) -> dict[str, Code]:
    """Return the codes of a catalogue file."""
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, Code])


def family_in(families: Sequence[Family], code: str) -> Family:
    """Return the family of a code. Raises KeyError if none has its range."""
    for family in families:
        if code.startswith(family.prefixes):
            return family
    raise KeyError(code)


@cache
def codes() -> Mapping[str, Code]:
    """Return the runtime's codes."""
    return read_codes(Path(__file__).with_name("error_codes.toml"))
