"""`[gates]` of a build manifest: what a build may come to at most, or fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated

from aotc.base.evidence import PLACES
from aotc.config.field_types import Arrayed, Bytes, Error, accepting
from aotc.config.toml_validation import Section

_OPERATION = re.compile(r"\A[a-z_]+\.[a-z0-9_]+\Z")

Number = Annotated[int, accepting(lambda v: v >= 0, "an integer of at least 0", "0 allows none")]
Part = Annotated[Error, accepting(lambda v: v <= 1, "a number from 0 to 1", "1 is every line")]

Library = Annotated[
    str,
    accepting(
        lambda v: v in PLACES, f"one of {', '.join(PLACES)}", "docs/evidence.md says whose is what"
    ),
]
Operation = Annotated[
    str,
    accepting(
        lambda v: bool(_OPERATION.match(v)),
        'an operation with its dialect, such as "stablehlo.while"',
        "`aotc inspect --json` lists those of a bundle",
    ),
]


@dataclass(frozen=True, slots=True)
class Gates(Section):
    """What a build may come to; None and empty allow anything.

    max_artifact_size: bytes of all blobs of a target.  max_executable_size, max_temp_memory: bytes,
    of each executable.  max_custom_calls, max_generated_kernels: in each executable.
    forbid_libraries: places of work, such as "LAPACK".  forbid_operations: of modules, such as
    "stablehlo.while".  min_coverage: the part of the lines of the functions that were traced, for
    each entry point, from 0 to 1.
    """

    max_artifact_size: Bytes | None = None
    max_executable_size: Bytes | None = None
    max_temp_memory: Bytes | None = None
    max_custom_calls: Number | None = None
    max_generated_kernels: Number | None = None
    forbid_libraries: Annotated[tuple[Library, ...], Arrayed] = ()
    forbid_operations: Annotated[tuple[Operation, ...], Arrayed] = ()
    min_coverage: Part | None = None

    def stated(self) -> Iterator[str]:
        """The gates that there are, by name."""
        for field in fields(self):
            if getattr(self, field.name) not in (None, ()):
                yield field.name
