"""Progress of long commands on stderr: bars on a terminal, else lines.

A line is printed as each stage begins, as it ends, and every ten seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aotc_runtime.base.rendering import warn
from aotc_runtime.system.read_progress import LARGE_BYTES, BytesProgress, bytes_at, is_seen
from aotc_runtime.system.streamed_bundle import OnProgress, ignore_progress

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

OnStage = Callable[[str, int, int], None]


@contextmanager
def progress(*, quiet: bool) -> Iterator[OnStage]:
    """Yield a function of (stage, done, total) that draws one line per stage."""
    if quiet:
        yield lambda stage, done, total: None
        return
    if not sys.stderr.isatty():
        with _lines(_count_text) as lines:
            yield lines.on_stage
        return
    from rich.progress import TaskID, TextColumn, TimeElapsedColumn

    with _bars(TextColumn("{task.fields[counted]}"), TimeElapsedColumn()) as bars:
        tasks: dict[str, TaskID] = {}

        def on_stage(stage: str, done: int, total: int) -> None:
            counted = _count_text(done, total)
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None, counted=counted)
            bars.update(tasks[stage], completed=done, total=total or None, counted=counted)

        yield on_stage


def _bars(*columns: ProgressColumn) -> Progress:
    """Bars on stderr that go away at the end, each with its name and these columns."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    named = (TextColumn("{task.description:<10}"), BarColumn(bar_width=30))
    return Progress(*named, *columns, console=Console(stderr=True), transient=True)


EVERY_SECONDS = 10.0
"""How often the log of a job without a terminal says how far a command is."""


class _Lines:
    """Progress as lines; `counted` is the text for what is done of a total."""

    def __init__(self, counted: Callable[[int, int], str]) -> None:
        self._text_of = counted
        self._lock = threading.Lock()
        self._begun: dict[str, float] = {}
        self._counted: dict[str, str] = {}

    def on_stage(self, stage: str, done: int, total: int) -> None:
        """Write a line as a stage begins, and one as it ends."""
        with self._lock:
            now = time.perf_counter()
            if stage not in self._begun:
                self._begun[stage] = now
                # One that does not count ends where the next one begins.
                running = {each: text for each, text in self._counted.items() if text}
                self._counted = {**running, stage: ""}
                self._write(f"{stage}: {self._text_of(0, total)}" if total else stage)
            if stage in self._counted and total:
                self._counted[stage] = self._text_of(done, total)
            if 0 < total <= done and stage in self._counted:
                seconds = now - self._begun[stage]
                self._write(f"{stage}: {self._counted.pop(stage)}, {seconds:.1f} s")

    def still(self) -> None:
        """Write a line about the stages that have not ended."""
        with self._lock:
            now = time.perf_counter()
            running = [
                f"{stage}: {f'{counted}, ' if counted else ''}{now - self._begun[stage]:.0f} s"
                for stage, counted in self._counted.items()
            ]
            if running:
                self._write("; ".join(running))

    def _write(self, line: str) -> None:
        warn(line)
        sys.stderr.flush()


@contextmanager
def _lines(counted: Callable[[int, int], str]) -> Iterator[_Lines]:
    lines, ended = _Lines(counted), threading.Event()

    def tell() -> None:
        while not ended.wait(EVERY_SECONDS):
            lines.still()

    thread = threading.Thread(target=tell, name="aotc-progress", daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        ended.set()
        thread.join()


def _count_text(done: int, total: int) -> str:
    return f"{done} of {total or '?'}"


def _bytes(done: int, total: int) -> str:
    from aotc.report.report_text import size

    return f"{size(done)} of {size(total)}"


OnBytes = Callable[[int, int], None]


@contextmanager
def byte_progress(stage: str, *, quiet: bool) -> Iterator[OnBytes]:
    """Yield a function of bytes (done, total) that draws one stage as `progress` does."""
    if quiet:
        yield lambda done, total: None
        return
    if not sys.stderr.isatty():
        with _lines(_bytes) as lines:
            lines.on_stage(stage, 0, 0)
            yield partial(lines.on_stage, stage)
        return
    from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    with _bars(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as bars:
        task = bars.add_task(stage, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)


@contextmanager
def passing_progress(
    stage: str, places: Iterable[Path], times: int, *, quiet: bool
) -> Iterator[OnProgress]:
    """Return a callback for hashed or copied bytes of large bundles, shown on a terminal.

    `places` are the bundles, whose bytes are passed `times` times.
    """
    total = times * sum(map(bytes_at, places))
    if quiet or total < LARGE_BYTES or not is_seen():
        yield ignore_progress
        return
    with byte_progress(stage, quiet=quiet) as on_bytes:
        yield BytesProgress(total, on_bytes).add
