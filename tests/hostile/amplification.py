"""Cost of reading a bundle: a process of its own, which forks one for each answer.

`python amplification.py` reads lines of JSON, a door and its arguments, and answers each with the
bytes of memory and the seconds of processor time that it took, and with what came of it.
"""

import gc
import json
import os
import resource
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import aotc_runtime
from aotc.cli.command_group import run_command
from aotc.cli.stop_signals import Stops
from aotc_runtime.__main__ import main
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified

IMPORTED = """
aotc.bundle.sign aotc.cli aotc.commands.attach aotc.commands.channel aotc.commands.diff
aotc.commands.explain aotc.commands.extract aotc.commands.merge aotc.commands.registry
aotc.commands.report_page aotc.report aotc_runtime.loader aotc_serve.channel aotc_serve.oci
aotc_serve.store
"""
ALONE = """
aotc_runtime.engines.xla.xla_cpu_device jaxlib.xla_client jinja2 tuf.api.serialization.json
"""
"""Packages and modules that doors import when they need them: here once, and not by each fork."""

SECONDS_MAX = 20
"""Whoever takes longer is ended: the attacks took minutes once."""


def verified(bundle: str, policy: str) -> int:
    return main(["verify", bundle, "--trust", policy])


def loaded_beside(bundle: str, policy: str) -> int:
    """As a server does that goes on serving meanwhile."""
    try:
        ThreadPoolExecutor().submit(aotc_runtime.load, bundle, trust=policy).result().close()
    except AotcError as error:
        return error.exit_code
    return 0


def command(*arguments: str) -> int:
    return run_command(arguments, Stops())


def runtime(*arguments: str) -> int:
    return main([*arguments])


DOORS: dict[str, Callable[..., int]] = {
    "verify": verified,
    "load": loaded_beside,
    "command": command,
    "runtime": runtime,
}


def cost(door: str, arguments: list[str]) -> tuple[int, float, int]:
    """Bytes, seconds, and the exit code, in this process."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = status("VmRSS")
    code = DOORS[door](*arguments)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return status("VmHWM") - start, seconds, code


def status(field: str) -> int:
    """Bytes."""
    text = Path("/proc/self/status").read_text("ascii")
    return next(
        int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{field}:")
    )


def forked(door: str, arguments: list[str]) -> object:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_MAX, SECONDS_MAX))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            os.write(writing, json.dumps(cost(door, arguments)).encode())
        except BaseException:  # noqa: BLE001 - whatever it is, the parent is told that there is none
            traceback.print_exc()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def serve() -> None:
    with suppress(AotcError):
        read_unverified(open_bundle("/nowhere"))  # so that imports are made
    for name in IMPORTED.split():
        for each in iter_modules(import_module(name).__path__, f"{name}."):
            import_module(each.name)
    for name in ALONE.split():
        import_module(name)
    gc.freeze()  # a fork's collections would copy the pages of what was made until here
    for line in sys.stdin:
        door, *arguments = json.loads(line)
        print(json.dumps(forked(door, arguments)), flush=True)


if __name__ == "__main__":
    serve()
