"""jax's own test harnesses: one use of one primitive each, with makers of its arguments.

They lie in a private module of jax, seen so in 0.12.0.1; no other file of the
tests imports it. Entry points of bundles are made from this module: `harness_17` is the function of
the harness number 17 in the order of names, `arguments_17` gives the arguments of its fixture, and
`calls_NAME_17` those of the calls to compare.

Thousands of them lower to the module of another one, so that they differ in their arguments at
most. Only the first of those is built; it is called with the arguments of each. `python
harnesses.py PART OUT` writes which are the same, of those whose name holds PART.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

jax.config.update(
    "jax_enable_x64", True
)  # names and dtypes of harnesses depend on it, from here on

from jax._src.internal_test_util import test_harnesses  # noqa: E402

FIXTURE_SEED = 0


@cache
def harnesses() -> Sequence[Any]:
    """All that jax runs on a CPU, in an order that does not depend on hashes."""
    found = (h for h in test_harnesses.all_harnesses if h.filter("cpu"))
    return sorted(found, key=lambda harness: harness.fullname)


def name_of(number: int) -> str:
    """Of the harness's entry point: it says what it is, and ends with its number."""
    return f"{re.sub(r'[^0-9A-Za-z]+', '_', harnesses()[number].fullname)[:80]}_{number}"


def arguments(number: int, seed: int) -> tuple[Any, ...]:
    """Of the harness of this number, without its static ones; drawn as jax's own tests draw."""
    return tuple(harnesses()[number].dyn_args_maker(np.random.RandomState(seed)))


def __getattr__(name: str) -> Callable[..., Any]:
    kind, _, entry_point = name.partition("_")
    number = entry_point.rpartition("_")[2]
    if not number.isdigit():
        raise AttributeError(name)
    index = int(number)
    match kind:
        case "harness":

            def run(arguments: tuple[Any, ...]) -> Any:
                return harnesses()[index].dyn_fun(*arguments)

            return run
        case "arguments":
            drawn = arguments(index, FIXTURE_SEED)  # now: some makers cannot be traced
            return lambda: drawn
        case "calls":
            found = json.loads(Path(os.environ["AOTC_HARNESSES"]).read_text("utf-8"))
            numbers = found[entry_point]
            return lambda rng: [
                {"arguments": arguments(n, int(rng.integers(1, 2**31)))} for n in numbers
            ]
    raise AttributeError(name)


def same(part: str) -> dict[str, list[int]]:
    """Numbers of harnesses whose name holds `part`, by the entry point that is built for those with
    the same module: the first of them.
    """
    found: dict[str, list[int]] = {}
    for number, harness in enumerate(harnesses()):
        if part in harness.fullname:
            run = getattr(sys.modules[__name__], f"harness_{number}")
            module = jax.jit(run).lower(arguments(number, FIXTURE_SEED)).as_text()
            found.setdefault(module, []).append(number)
    return {name_of(numbers[0]): numbers for numbers in found.values()}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(same(sys.argv[1])), "utf-8")
