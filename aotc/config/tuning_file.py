"""The file that `aotc build --tune --save-tuning` writes, and `--tuning` builds from again."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from aotc.errors import UsageError, raise_if
from aotc.stages import CompileJob
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import MeasuredCandidate, Tuned
from aotc_runtime.system.files import read_file

type Key = tuple[str, str, int]
"""Target, entry point, index of the profile."""

HEAD = b'{\n  "aotc_tuning": 1,\n'
"""How every such file begins."""

BYTES_MAX = 64 * 2**20
"""Of a tuning file; one of 12 executables has about 20 KB."""


class TunedExecutable(Struct, frozen=True, forbid_unknown_fields=True):
    """module: digest of what was compiled, so that choices are not taken for another program."""

    target: str
    entry_point: str
    profile: int
    label: str
    module: str
    tuned: Tuned


class TuningFile(Struct, frozen=True, forbid_unknown_fields=True):
    """jaxlib: whose compiler was measured.  not_tuned: target to why its host was another."""

    aotc_tuning: Literal[1]
    jaxlib: str
    executables: tuple[TunedExecutable, ...]
    not_tuned: dict[str, str]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A tuning file that was read. where: for messages."""

    file: TuningFile
    where: str


def begins(head: bytes) -> bool:
    """Whether a file with these first bytes is one."""
    return head.startswith(HEAD)


def encode(file: TuningFile) -> bytes:
    """The file's bytes: for people to read, and to keep in version control."""
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def of(
    tuned: Mapping[Key, Tuned],
    jobs: Mapping[Key, CompileJob],
    not_tuned: Mapping[str, str],
    jaxlib: str,
) -> TuningFile:
    """What a build chose, as a file."""
    return TuningFile(
        aotc_tuning=1,
        jaxlib=jaxlib,
        executables=tuple(
            TunedExecutable(*key, jobs[key].label, jobs[key].module.digest, choice)
            for key, choice in tuned.items()
        ),
        not_tuned=dict(not_tuned),
    )


def read(path: Path) -> Recorded:
    """Read a tuning file. Raises UsageError (AOTC-E030)."""
    try:
        data = read_file(path, BYTES_MAX)
        if len(data) > BYTES_MAX:
            raise OSError(errno.EFBIG, f"more than {BYTES_MAX} bytes")
        file = msgspec.json.decode(data, type=TuningFile)
    except (OSError, ValueError, RecursionError) as error:  # MsgspecError is a ValueError
        found = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(
            Finding(
                code="AOTC-E030",
                where=str(path),
                expected="a tuning file, as `aotc build --tune --save-tuning` writes it",
                found=found,
                hint="correct the path, or tune again",
            )
        ) from error
    return Recorded(file, str(path))


def choices(recorded: Recorded, jobs: Mapping[Key, CompileJob], jaxlib: str) -> dict[Key, Tuned]:
    """What the file says of each job; targets that it says were not tuned have no choices.

    Raises UsageError (AOTC-E031) if it is of another program, target or jaxlib.
    """
    known = {(e.target, e.entry_point, e.profile): e for e in recorded.file.executables}
    wanted = {key: job for key, job in jobs.items() if key[0] not in recorded.file.not_tuned}
    raise_if(_misfits(recorded, known, wanted, jaxlib))
    return {key: known[key].tuned for key in wanted}


def _misfits(
    recorded: Recorded,
    known: Mapping[Key, TunedExecutable],
    wanted: Mapping[Key, CompileJob],
    jaxlib: str,
) -> Iterable[Finding]:
    def misfit(where: str, expected: str, found: str) -> Iterator[Finding]:
        hint = "tune again: `aotc build --tune --save-tuning`"
        yield Finding("AOTC-E031", f"{recorded.where}{where}", expected, found, hint)

    if recorded.file.jaxlib != jaxlib:
        yield from misfit("", f"choices for jaxlib {jaxlib}", f"those for {recorded.file.jaxlib}")
    for key, job in wanted.items():
        where = f", {job.label} for {job.target.name}"
        if key not in known:
            yield from misfit(where, "a choice for every executable", "none")
        elif known[key].module != job.module.digest:
            yield from misfit(where, f"the program {job.module.digest}", known[key].module)
        else:
            tuned = known[key].tuned
            names = {each.name for each in tuned.candidates if isinstance(each, MeasuredCandidate)}
            # Candidates that capture weights are named so.
            if tuned.choice not in names or tuned.choice.startswith("captured") != bool(
                tuned.captured
            ):
                captured = f", {len(tuned.captured)} weights captured"
                yield from misfit(where, "a choice that was measured", f"{tuned.choice}{captured}")
