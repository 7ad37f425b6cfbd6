"""Search for what an engine computes otherwise than plain JAX: `python -m tests.engines.search iree
OUT [PART ...]` runs every program of `edge_programs` whose name holds one of the parts.

OUT gets one line of JSON for each: how its results differ, with the worst number. Programs run in
children, several in each: a crash is a finding, and the rest goes on in a new child. LEVEL in the
environment is the one level of optimization to compile at, instead of the first that compiles.
X64=0 there makes every program one of at most 32 bits, as JAX does by default.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

SECONDS_MAX = 120.0
"""For one program, with both compilers."""

CHILDREN = 2


TOGETHER = 24
"""Programs that are compiled as one: a third of the time."""

WORDS = ("same", "near", "small", "wrong")

type Programs = dict[str, tuple[Any, Iterable[Any]]]


class Finding(NamedTuple):
    """found: one of WORDS; `refused` or `failed` of an engine, or else `crashed` or `slow`."""

    name: str
    found: str
    told: str


class RefusedError(Exception):
    """What an engine said of a program that it does not compile."""


def run_iree(module: Any, inputs: Sequence[Any], avals: Sequence[Any], lower: bool) -> list[Any]:
    """Results of IREE's code for a module, compiled in this process as the backend's worker does.

    lower: whether lower levels are tried, too.
    """
    from aotc.backends.iree.compile import FLAGS, _target_flags
    from aotc.backends.iree.job import LEVEL, LEVELS, Job
    from aotc.backends.iree.worker import compile_job
    from aotc.backends.targets import read_target
    from aotc.pipeline.engines import candidates
    from aotc_runtime.engines.iree import engine

    (target,) = candidates(read_target("cpu-x86-64-v3", Path(__file__).parent), ["iree"], "here")
    words = ""
    stated = os.environ.get("LEVEL")
    for level in [stated] if stated else LEVELS if lower else LEVELS[:1]:
        flags = (*FLAGS, *_target_flags(target), f"--{LEVEL}={level}")
        result = compile_job(Job(module.artifact, flags, (), target.threads))
        if not result.problem:
            break
        words = f"{words} {level}: {' '.join(result.called)} {result.words};"
    else:
        raise RefusedError(words.strip())
    return run_here(engine, "iree", result.serialized, inputs, avals)


def run_graphs(
    name: str, module: Any, inputs: Sequence[Any], avals: Sequence[Any], lower: bool
) -> list[Any]:
    """Results of an engine that takes graphs, made in this process as its backend's worker does."""
    from importlib import import_module

    from aotc.backends.onnx_graphs.job import Job

    folder = {"onnxruntime": "onnx"}.get(name, name)
    result = import_module(f"aotc.backends.{folder}.worker").compile_job(Job(module.artifact, ()))
    if result.problem:
        raise RefusedError(f"{' '.join(result.called)} {result.words}".strip())
    engine = import_module(f"aotc_runtime.engines.{name}.engine")
    return run_here(engine, name, result.serialized, inputs, avals)


def run_here(
    engine: Any, platform: str, serialized: bytes, inputs: Sequence[Any], avals: Sequence[Any]
) -> list[Any]:
    """Results of an executable on the engine's own device, which are the same by each way to call
    it.
    """
    from aotc_runtime.digest import sha256
    from aotc_runtime.engines.device import Aval, Stored
    from aotc_runtime.verification.verify import VerifiedBlob

    device = engine.start(platform, None, None)
    blob = VerifiedBlob(sha256(serialized), memoryview(serialized))
    (executable,) = device.deserialize([Stored(blob, avals, "searched")], (0,), ())
    taken = [Aval(array.shape, array.dtype) for array in inputs]
    given = device.execute(executable, [*map(device.put, inputs, taken)])
    found = [device.to_numpy(b, a) for b, a in zip(given, avals, strict=True)]
    direct = device.direct(executable, (), taken, avals)
    copying = device.on_host(direct) if direct is not None else None
    if copying is not None:
        # What comes second finds the memory of the first.
        for ours in (copying(*inputs), copying(*inputs)):
            assert [(each.dtype, each.tobytes()) for each in ours] == [
                (each.dtype, each.tobytes()) for each in found
            ]
    return found


ENGINES: dict[str, Callable[[Any, Sequence[Any], Sequence[Any], bool], list[Any]]] = {
    "iree": run_iree,
    "onnxruntime": partial(run_graphs, "onnxruntime"),
    "openvino": partial(run_graphs, "openvino"),
}


def compared(actual: Any, expected: Any) -> tuple[str, str]:
    """How far results are apart, in a word, and the numbers that are the furthest.

    `same`: bit by bit, but for which NaN. `near`: the last bits. `small`: of numbers small beside
    others, or of the sign of a zero. `wrong`: the rest.
    """
    import numpy as np

    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return "wrong", f"{actual.dtype}{actual.shape} for {expected.dtype}{expected.shape}"
    if actual.tobytes() == expected.tobytes():
        return "same", ""
    if expected.dtype.kind in "biu":
        place = np.argwhere(actual != expected)[0]
        return "wrong", f"{actual[tuple(place)]!r} for {expected[tuple(place)]!r} at {place}"
    if expected.dtype.kind == "c":
        parts = expected.real.dtype
        actual, expected = (np.atleast_1d(each).view(parts) for each in (actual, expected))
    bits = {2: 8e-3, 4: 1e-5, 8: 1e-13}[expected.dtype.itemsize]
    if expected.dtype == np.float16:
        bits = 2e-3
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        odd = ~(np.isfinite(actual) & np.isfinite(expected))
        differ = np.where(
            odd,
            (actual != expected) & ~(np.isnan(actual) & np.isnan(expected)),
            False,
        )
        if differ.any():
            return "wrong", _told(actual, expected, differ)
        apart = np.where(odd, 0, np.abs(actual - expected))
        largest = np.max(np.abs(expected), initial=0, where=~odd)
        relative = apart / np.maximum(np.abs(expected), 1e-300)
        beyond = (relative > 10 * bits) & (apart > bits * max(largest, 1e-300))
        beyond &= apart > (bits if expected.ndim > 0 else 0)
        if beyond.any():
            return "wrong", _told(actual, expected, beyond)
        signs = (actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))
        little = (relative > bits) | signs
        if little.any():
            return "small", _told(actual, expected, little)
        worst = relative == relative.max()
        return ("near" if apart.any() else "same"), _told(actual, expected, worst)


def _told(actual: Any, expected: Any, where: Any) -> str:
    import numpy as np

    places = np.argwhere(where)
    shown = [
        f"{float(actual[tuple(p)])!r} for {float(expected[tuple(p)])!r} at {p.tolist()}"
        for p in places[:6]
    ]
    return f"{len(places)} of {actual.size}: {', '.join(shown)}"


def findings(engine: str, every: Programs, names: Sequence[str]) -> list[Finding]:
    """What an engine makes of programs that are compiled together, beside what plain JAX does: one
    by one where the engine does not take all of them.
    """
    import jax
    import numpy as np

    from aotc.lowering.stablehlo import portable
    from aotc_runtime.engines.device import Aval

    inputs, tree = jax.tree.flatten([tuple(every[name][1]) for name in names])

    def together(*flat: Any) -> list[Any]:
        given = jax.tree.unflatten(tree, flat)
        return [every[name][0](*each) for name, each in zip(names, given, strict=True)]

    def alone(found: str, told: object) -> list[Finding]:
        if len(names) == 1:
            return [Finding(names[0], found, str(told)[:400])]
        half = len(names) // 2
        return [
            *findings(engine, every, names[:half]),
            *findings(engine, every, names[half:]),
        ]

    try:
        with jax.enable_x64(os.environ.get("X64") != "0"):
            inputs = [np.asarray(jax.numpy.asarray(each)) for each in inputs]
            run = jax.jit(together, keep_unused=True)
            lowered = run.trace(*inputs).lower(lowering_platforms=("cpu",))
            module = portable(lowered.compiler_ir("stablehlo"))
            avals = [Aval(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(lowered.out_info)]
    except Exception as error:  # noqa: BLE001 - what jax does not do is a finding
        return alone("untraceable", f"{type(error).__name__}: {error}")
    # Before plain JAX runs: most of a table may be refused, and compiling it takes the time.
    try:
        actual = iter(ENGINES[engine](module, inputs, avals, len(names) == 1))
    except RefusedError as error:
        return alone("refused", error)
    except Exception as error:  # noqa: BLE001 - so is what an engine says
        return alone("failed", f"{type(error).__name__}: {error}")
    try:
        with jax.enable_x64(os.environ.get("X64") != "0"):
            made = run(*inputs)
    except Exception as error:  # noqa: BLE001 - and what jax does not run
        return alone("untraceable", f"{type(error).__name__}: {error}")
    expected = [[np.asarray(leaf) for leaf in jax.tree.leaves(each)] for each in made]
    return [
        _worst(name, [(next(actual), leaf) for leaf in each])
        for name, each in zip(names, expected, strict=True)
    ]


def _worst(name: str, results: Sequence[tuple[Any, Any]]) -> Finding:
    worst = Finding(name, "same", "")
    for number, pair in enumerate(results):
        word, told = compared(*pair)
        if WORDS.index(word) > WORDS.index(worst.found):
            worst = Finding(name, word, f"result {number}: {told}")
    return worst


def programs() -> Programs:
    """Every program to run, by name. HARNESSES in the environment: jax's own harnesses instead, and
    the part of their names.
    """
    if "HARNESSES" in os.environ:
        return {name: (function, inputs) for name, function, inputs in _harnesses()}
    from .edge_programs import PROGRAMS

    return dict(PROGRAMS)


def _harnesses() -> Iterator[tuple[str, Any, Sequence[Any]]]:
    from tests.programs import harnesses

    part = os.environ["HARNESSES"]
    for number, harness in enumerate(harnesses.harnesses()):
        if part in harness.fullname:
            yield harnesses.name_of(number), harness.dyn_fun, _Drawn(number)


class _Drawn:
    """The arguments of a harness, drawn when they are used: some take seconds."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __iter__(self) -> Iterator[Any]:
        import numpy as np

        from tests.programs import harnesses

        return iter(map(np.asarray, harnesses.arguments(self._number, harnesses.FIXTURE_SEED)))


def child(engine: str) -> None:
    """Run the programs whose names come by stdin; a line of JSON before and after each."""
    import tempfile

    every = programs()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the compiler leaves its statistics in the working folder
        for line in sys.stdin:
            print(json.dumps(findings(engine, every, line.split())), file=out, flush=True)


class Child:
    """A child that runs one program after the other."""

    def __init__(self, engine: str, said: Path) -> None:
        self._command = [sys.executable, "-m", "tests.engines.search", engine]
        self._said = said
        self._process: subprocess.Popen[str] | None = None

    def run(self, names: Sequence[str]) -> list[Finding]:
        """What became of programs. A crash and a time-out end this process, not the next, and are
        looked for one by one.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said.open("a"),
                text=True,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(" ".join(names) + "\n")
        process.stdin.flush()
        word = "slow"
        if select.select([process.stdout], [], [], SECONDS_MAX)[0]:
            if line := process.stdout.readline():
                return [Finding(*each) for each in json.loads(line)]
            word = "crashed"
        self.end()
        if len(names) == 1:
            return [Finding(names[0], word, f"{process.returncode}")]
        half = len(names) // 2
        return [*self.run(names[:half]), *self.run(names[half:])]

    def end(self) -> None:
        """Stop it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _taken(left: deque[str]) -> list[str]:
    names: list[str] = []
    while left and len(names) < TOGETHER:
        names.append(left.popleft())
    return names


def search(engine: str, out: Path, parts: Sequence[str]) -> Counter[str]:
    """Run what is not yet in `out`."""
    known = (
        {json.loads(line)["name"] for line in out.open(encoding="utf-8")} if out.exists() else set()
    )
    left = deque(
        name
        for name in programs()
        if name not in known and (not parts or any(part in name for part in parts))
    )

    def work(number: int) -> None:
        one = Child(engine, out.with_suffix(f".said{number}"))
        try:
            while names := _taken(left):
                found = one.run(names)
                with out.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(each._asdict()) + "\n" for each in found)
        finally:
            one.end()

    threads = [Thread(target=work, args=(number,)) for number in range(CHILDREN)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(json.loads(line)["found"] for line in out.open(encoding="utf-8"))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        child(sys.argv[1])
    else:
        print(search(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
