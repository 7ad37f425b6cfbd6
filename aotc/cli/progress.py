"""Progress of long commands on stderr: bars on a terminal, else a line as each stage begins,
and one as it ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aotc_runtime.rendering import warn
from aotc_runtime.system.passing import Told, nobody
from aotc_runtime.system.progress import LARGE_BYTES, bytes_at, is_seen

OnStage = Callable[[str, int, int], None]


@contextmanager
def progress(*, quiet: bool) -> Iterator[OnStage]:
    """A function to call with (stage, done, total); it draws one line per stage."""
    if quiet:
        yield lambda stage, done, total: None
        return
    if not sys.stderr.isatty():
        begun: dict[str, float] = {}
        ended: set[str] = set()

        def lines(stage: str, done: int, total: int) -> None:
            if stage not in begun:
                begun[stage] = time.perf_counter()
                warn(f"{stage}: {_counted(stage, 0, total)}" if total else stage)
            if 0 < total <= done and stage not in ended:
                ended.add(stage)
                seconds = time.perf_counter() - begun[stage]
                warn(f"{stage}: {_counted(stage, done, total)}, {seconds:.1f} s")
            sys.stderr.flush()

        yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def on_stage(stage: str, done: int, total: int) -> None:
            counted = _counted(stage, done, total)
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None, counted=counted)
            bars.update(tasks[stage], completed=done, total=total or None, counted=counted)

        yield on_stage


IN_BYTES = ("weights", "pack")
"""Stages of a build whose steps are bytes; of little there are none."""


def _counted(stage: str, done: int, total: int) -> str:
    if stage not in IN_BYTES or not total:
        return f"{done} of {total or '?'}"
    from aotc.report.text import size

    return f"{size(done)} of {size(total)}"


OnBytes = Callable[[int, int], None]


@contextmanager
def byte_progress(stage: str, *, quiet: bool) -> Iterator[OnBytes]:
    """A function to call with bytes (done, total), of one stage; as `progress` draws."""
    if quiet or not sys.stderr.isatty():
        from aotc.report.text import size

        with progress(quiet=quiet) as on_stage:
            begun = time.perf_counter()
            if not quiet:
                on_stage(stage, 0, 0)
            last = (0, 0)

            def keep(done: int, total: int) -> None:
                nonlocal last
                last = (done, total)

            yield keep
            if not quiet:
                seconds = time.perf_counter() - begun
                warn(f"{stage}: {size(last[0])} of {size(last[1])}, {seconds:.1f} s")
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(stage, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)


@contextmanager
def passing_progress(
    stage: str, places: Iterable[Path], times: int, *, quiet: bool
) -> Iterator[Told]:
    """A function to call with bytes as they are hashed or copied; it draws on a terminal, for large
    bundles. places: of bundles.  times: that their bytes are passed.
    """
    total = times * sum(map(bytes_at, places))
    if quiet or total < LARGE_BYTES or not is_seen():
        yield nobody
        return
    from aotc_runtime.registries.transfer import Tally

    with byte_progress(stage, quiet=quiet) as on_bytes:
        yield Tally(total, on_bytes).add
