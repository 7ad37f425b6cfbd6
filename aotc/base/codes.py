"""The catalogue of error codes of the toolchain, and of the runtime, which it raises too.

`error_codes.toml` holds the texts. Both files are read when there is an error to report.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import aotc_runtime.base.codes
from aotc.base.errors import family_of
from aotc_runtime.base.codes import Code, read_codes
from aotc_runtime.base.errors import AotcError


class Family(NamedTuple):
    """Codes with one exception class, and so one exit code.

    Attributes:
        prefixes: What its codes begin with.
        title: The heading on the page of error codes.
    """

    prefixes: tuple[str, ...]
    title: str

    @property
    def error(self) -> type[AotcError]:
        """The exception class."""
        return family_of(self.prefixes[0])

    @property
    def ranges(self) -> str:
        """The codes in short: "E50x, E51x"."""
        return ", ".join(p.removeprefix("AOTC-").ljust(4, "x") for p in self.prefixes)


FAMILIES: tuple[Family, ...] = (
    Family(("AOTC-E1",), "bundle format"),
    Family(("AOTC-E2",), "integrity"),
    Family(("AOTC-E3",), "trust"),
    Family(("AOTC-E4",), "runtime"),
    Family(("AOTC-E50", "AOTC-E51"), "host"),
    Family(("AOTC-E55",), "resources"),
    Family(("AOTC-E56",), "stores"),
    Family(("AOTC-E6",), "calls"),
    Family(("AOTC-E70",), "readiness"),
    Family(("AOTC-E75",), "backend"),
    Family(("AOTC-E76", "AOTC-E78"), "server"),
    Family(("AOTC-E77",), "registries"),
    Family(("AOTC-E0",), "usage"),
    Family(("AOTC-E80", "AOTC-E81"), "build manifest and target files"),
    Family(("AOTC-E82", "AOTC-E83", "AOTC-E84"), "capture"),
    Family(("AOTC-E90", "AOTC-E91"), "compile"),
    Family(("AOTC-E94",), "reproducibility"),
    Family(("AOTC-E95",), "parity"),
    Family(("AOTC-E96",), "fleets"),
    Family(("AOTC-E97",), "budgets"),
    Family(("AOTC-E981",), "Ctrl-C"),
    Family(("AOTC-E982",), "SIGTERM"),
    Family(("AOTC-E983",), "SIGHUP"),
)


@cache
def own_codes() -> Mapping[str, Code]:
    """Return the codes that only the toolchain has."""
    return read_codes(Path(__file__).with_name("error_codes.toml"))


@cache
def codes() -> Mapping[str, Code]:
    """Return the codes of the toolchain and the runtime."""
    return {**aotc_runtime.base.codes.codes(), **own_codes()}
