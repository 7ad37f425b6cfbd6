"""Progress of long commands on stderr: bars on a terminal, else a line as each stage begins,
and one as it ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
                sys.stderr.write(f"{stage}: 0 of {total}\n" if total else f"{stage}\n")
            if 0 < total <= done and stage not in ended:
                ended.add(stage)
                seconds = time.perf_counter() - begun[stage]
                sys.stderr.write(f"{stage}: {done} of {total}, {seconds:.1f} s\n")
            sys.stderr.flush()

        yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, int] = {}

        def on_stage(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            bars.update(tasks[stage], completed=done, total=total or None)  # type: ignore[arg-type]

        yield on_stage


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
                sys.stderr.write(f"{stage}: {size(last[0])} of {size(last[1])}, {seconds:.1f} s\n")
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
