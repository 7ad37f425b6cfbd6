"""Command lines of `aotc` in one new process, one after another: for what a process is given at
its start, an environment or distributions on its path.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = """
import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

from aotc.cli.command_group import run_command
from aotc.cli.stop_signals import Stops

said = []
for folder, arguments in json.load(sys.stdin):
    os.chdir(folder)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run_command(arguments, Stops())
    for stream in (out, err):
        stream.flush()
    said.append([code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()])
json.dump(said, sys.stdout)
"""


class Said(NamedTuple):
    """Exit code and output of a command line."""

    exit_code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        assert self.out, self.err
        return json.loads(self.out)


def run_all(
    lines: Sequence[tuple[Path, Sequence[str | Path]]], variables: Mapping[str, str]
) -> list[Said]:
    """Run command lines, each in its folder. variables: beside this process' own; folders in
    PYTHONPATH go before those that this one has.
    """
    paths = (variables.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([[str(folder), [*map(str, line)]] for folder, line in lines]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Said(*each) for each in json.loads(done.stdout)]
