"""Every door that a bundle can come in by: both commands, and `load`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import aotc_runtime
from aotc.cli.command_group import run_command
from aotc.cli.stop_signals import Stops
from aotc_runtime.__main__ import main as runtime_main
from aotc_runtime.base.errors import AotcError

Answer = tuple[str, int]
"""Code and exit code; "ready" and 0 for a bundle that comes in."""

Capture = pytest.CaptureFixture[str]

READY: Answer = ("ready", 0)


def at_every_door(path: Path, trust: Path, capfd: Capture) -> list[Answer]:
    """Return what each door says of a bundle under a policy."""
    arguments = ["verify", str(path), "--trust", str(trust), "--json"]
    return [
        commanded(toolchain, arguments, capfd),
        commanded(runtime_main, arguments, capfd),
        loaded(path, trust),
    ]


def loaded(path: Path, trust: Path) -> Answer:
    try:
        aotc_runtime.load(path, trust=trust).close()
    except AotcError as error:
        return error.code, error.exit_code
    return READY


def commanded(main: Callable[[list[str]], int], arguments: list[str], capfd: Capture) -> Answer:
    """Code and exit code of the first finding in the document that a command prints."""
    exit_code = main(arguments)
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert document["ok"] == (exit_code == 0)
    assert not printed.err, printed.err
    if document["ok"]:
        return READY
    assert document["exit_code"] == exit_code
    return document["findings"][0]["code"], exit_code


def toolchain(arguments: list[str]) -> int:
    return run_command(arguments, Stops())
