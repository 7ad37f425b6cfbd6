"""Use a bundle the way a server does: in a fresh process that has the runtime and never jax."""

import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aotc_runtime import LoadedBundle

MANIFESTS = Path(__file__).parents[2] / "manifests"

type Array = np.ndarray[Any, Any]
type Arrays = dict[str, Array]
type Client = Callable[[LoadedBundle, Arrays], Arrays]
"""What a server does with a loaded bundle and the inputs. Its source is all that travels to the
process, so it imports inside itself whatever it needs but numpy, which is there as `np`.
"""

PROGRAM = """\
from __future__ import annotations

import json
import sys

import numpy as np

import aotc_runtime

{source}

path, policy, inputs, outputs, target = sys.argv[1:]
with aotc_runtime.load(path, trust=policy, target=target or None) as bundle:
    with np.load(inputs) as archive:
        np.savez(outputs, **{name}(bundle, dict(archive)))
    print(json.dumps(bundle.report()))
imported = {{module.partition(".")[0] for module in sys.modules}}
unwanted = imported & {{"jax", "aotc", "pydantic", "click"}}
assert not unwanted, unwanted
"""


class Outcome(NamedTuple):
    """outputs: what the client returned.  report: of the bundle, after the client."""

    outputs: Arrays
    report: dict[str, Any]


class Server(NamedTuple):
    """Python that runs the process. command: of it.  environment: beside this process' own."""

    command: Sequence[str]
    environment: Mapping[str, str]


HERE = Server([sys.executable], {"PYTHONPATH": str(MANIFESTS)})


def run(
    client: Client,
    bundle: tuple[Path, Path],
    folder: Path,
    inputs: Mapping[str, Any],
    *,
    target: str = "",
    server: Server = HERE,
) -> Outcome:
    """Load the bundle in a process without jax and call the client there.

    bundle: its path and its policy's.  folder: an empty one, for the files in between.  target: to
    load, or "" for the best.
    """
    program, given, returned = folder / "client.py", folder / "inputs.npz", folder / "outputs.npz"
    source = textwrap.dedent(inspect.getsource(client))
    program.write_text(PROGRAM.format(source=source, name=client.__name__))
    np.savez(given, **inputs)
    path, policy = bundle
    done = subprocess.run(
        [*server.command, program, path, policy, given, returned, target],
        env={**os.environ, **server.environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["compilations"] == 0
    with np.load(returned) as archive:
        return Outcome(dict(archive), report)
