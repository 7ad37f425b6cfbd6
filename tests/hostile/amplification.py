"""What reading a bundle costs: run as a process of its own, that forks one for each answer.

`python amplification.py` reads lines of JSON, a door and its arguments, and answers each with the
bytes of memory and the seconds of processor time that it took, and with what came of it.
"""

from __future__ import annotations

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

import aotc_runtime
from aotc.cli.command_group import run_command
from aotc.cli.stop_signals import Stops
from aotc_runtime.__main__ import main
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified

IMPORTED = (
    *(
        "aotc.bundle.sign.bundle_signing",
        "aotc.cli.inspect_command",
        "aotc.cli.main",
        "aotc.cli.sign_command",
    ),
    *("aotc.cli.reference_options", "aotc.cli.verify_command", "aotc.report.inspect_report"),
    *("aotc.commands.channel.channel_command", "aotc.commands.channel.channel_repository"),
    *(
        "aotc.commands.diff.diff_command",
        "aotc.commands.diff.bundle_diff",
        "aotc.commands.diff.diff_text",
    ),
    *("aotc.commands.explain.explain_command", "aotc.commands.explain.representations"),
    *("aotc.commands.extract.extract_command", "aotc.commands.extract.extracted_bundle"),
    *(
        "aotc.commands.merge.merge_command",
        "aotc.commands.merge.merged_bundle",
    ),
    *(
        "aotc.commands.report_page.report_command",
        "aotc.commands.report_page.page_renderer",
    ),
    *("aotc.commands.registry.push_pull_command", "aotc.commands.registry.bundle_pull"),
    *("aotc_serve.channel.channel_client", "aotc_runtime.engines.xla.xla_cpu_device"),
    *(
        "aotc_runtime.loader.bundle_loader",
        "aotc_serve.oci.registry_client",
    ),
    *(
        "aotc_serve.store.reference_loading",
        "jaxlib.xla_client",
        "jinja2",
        "tuf.api.serialization.json",
    ),
)
"""What the doors import when they need it: here once, and not by each fork anew."""

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
    for module in IMPORTED:
        import_module(module)
    gc.freeze()  # a fork's collections would copy the pages of what was made until here
    for line in sys.stdin:
        door, *arguments = json.loads(line)
        print(json.dumps(forked(door, arguments)), flush=True)


if __name__ == "__main__":
    serve()
