"""Programs of a search, by their names, and the processes that run them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .engine_calls import Array, Case, Lowered, RefusedError
from .findings import Finding, finding

if TYPE_CHECKING:
    from .generated_programs import Generated

SECONDS_MAX = 120.0
"""For a program on one engine."""

CALLS_MAX = 1000
"""For one child: jax keeps what it has traced."""


def generated_case(name: str) -> Case:
    """Return a program that is generated, by its name."""
    from .generated_programs import trials

    made, number = program_of(name), name.rpartition(".")[2]
    return Case(name, made.function(), made.x64, made.weights, trials(made, int(number)))


def program_of(name: str) -> Generated:
    """Return the program `generated.SEED.NUMBER` or `quantized.SEED.NUMBER`."""
    from .generated_programs import generated
    from .quantized_programs import quantized

    kind, seed, number = name.split(".")
    return {"generated": generated, "quantized": quantized}[kind](int(seed), int(number))


def edge_case(name: str) -> Case:
    """Return a program of `edge_programs`, with its inputs and their reverse."""
    import numpy as np

    from scripts.search.edge_programs import PROGRAMS

    function, inputs = PROGRAMS[name]
    given = [np.asarray(each) for each in inputs]
    turned = [each.reshape(-1)[::-1].reshape(each.shape) for each in given]
    is_x64 = os.environ.get("X64") != "0"
    if not is_x64:
        given, turned = ([*map(_narrowed, each)] for each in (given, turned))
    return Case(name, function, is_x64, (), {"edges": given, "edges in reverse": turned})


def _narrowed(array: Array) -> Array:
    import jax
    import numpy as np

    with jax.enable_x64(False):
        return np.asarray(jax.numpy.asarray(array))


def case(name: str) -> Case:
    """Return the program of a name."""
    is_edge = name.partition(".")[0] not in ("generated", "quantized")
    return edge_case(name) if is_edge else generated_case(name)


def child() -> None:
    """Answer each line of stdin, a program's name and an engine, with what is found."""
    import faulthandler

    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(_tried(*json.loads(line))), file=out, flush=True)


def _tried(name: str, engine: str) -> Finding:
    lowered = _lowered(name)
    if isinstance(lowered, Finding):
        return lowered
    try:
        return finding(engine, lowered)
    except RefusedError as error:
        return Finding(name, "refused", str(error)[:400], engine)
    except Exception as error:  # noqa: BLE001 - what an engine says is a finding
        return Finding(name, "failed", f"{type(error).__name__}: {error}"[:400], engine)


@lru_cache(maxsize=1)
def _lowered(name: str) -> Lowered | Finding:
    try:
        lowered = Lowered(case(name))
        for given in lowered.trials:
            lowered.plain(given)
    except Exception as error:  # noqa: BLE001 - what jax does not do is a finding
        return Finding(name, "untraceable", f"{type(error).__name__}: {error}"[:400])
    return lowered


class Child:
    """A process that runs programs on engines, and the next one where one has ended.

    said: a file for what they print.
    """

    def __init__(self, said: Path) -> None:
        self._said = said
        self._calls = 0
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, name: str, engine: str) -> Finding:
        """Return what became of a program."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([name, engine]).encode() + b"\n")
        answers = bool(select.select([process.stdout], [], [], SECONDS_MAX)[0])
        if answers and (line := process.stdout.readline()):
            return Finding(*json.loads(line))
        if answers:
            process.wait(SECONDS_MAX)
        self.end()
        return Finding(name, "crashed" if answers else "slow", f"{process.returncode}", engine)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._calls >= CALLS_MAX:
            self.end()
        if self._process is None:
            self._calls = 0
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scripts.search", "child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said.open("a"),
                bufsize=0,
            )
        self._calls += 1
        return self._process

    def end(self) -> None:
        """Stop it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
