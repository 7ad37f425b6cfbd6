"""Installs an engine's runtime and the needs of aotc-runtime into an environment, with uv or pip.

Index, proxy and constraints are those of the user's own configuration of that tool. Only wheels are
installed: nothing is built, and no code of a package runs during the installation.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import requires
from pathlib import Path

from aotc.base.child_processes import Processes
from aotc.base.errors import finding, quote, refusal
from aotc_runtime.base.errors import Finding, ResourceError
from aotc_runtime.schema.certified_releases import Release

LINES_SHOWN = 4

NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ConnectionError|ProxyError|SSLError"
    r"|Max retries exceeded|Connection (?:refused|reset|broken)|Read timed out|error trying to "
    r"connect|dns error|Failed to fetch|Could not fetch|client error \(Connect\)|offline",
    re.IGNORECASE,
)
"""Texts of pip and uv for an index that cannot be reached."""

NOT_THERE = re.compile(
    r"No matching distribution|Could not find a version|No solution found|no wheels? with",
    re.IGNORECASE,
)
VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")


def requirements(release: Release) -> list[str]:
    """Return the requirements of aotc-runtime with this release of the engine."""
    stated = [text for text in requires("aotc-runtime") or () if "extra ==" not in text]
    return [f"{release.package}=={release.version}", *sorted(stated)]


def install(folder: Path, release: Release, processes: Processes) -> None:
    """Create an environment for the runtime in an empty folder, with uv or pip.

    Raises ResourceError (AOTC-E557 to E559).
    """
    uv = shutil.which("uv")
    python = str(folder / "bin" / "python")
    # The base interpreter: an environment made from an environment would end with that one.
    base = getattr(sys, "_base_executable", sys.executable)
    wanted = requirements(release)
    wheels = ["--only-binary", ":all:", *wanted]
    if uv:
        commands = [[uv, "venv", "--quiet", "--python", base, str(folder)]]
        commands += [[uv, "pip", "install", "--quiet", "--python", python, *wheels]]
    else:
        options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-input"]
        options += ["--retries", "1", "--timeout", "15", *wheels]
        commands = [[base, "-I", "-m", "venv", str(folder)]]
        commands += [[python, "-m", "pip", "install", *options]]
    for command in commands:
        _run(command, str(release), wanted, processes)
    require_spelling(folder, release)


def require_spelling(folder: Path, release: Release) -> None:
    """Reject an environment whose package spells its version differently.

    Installers treat 0.12 and 0.12.0 as equal (PEP 440); certificates and loaders compare texts.
    Raises ResourceError (AOTC-E558).
    """
    begin, end = f"{release.package.replace('-', '_')}-", ".dist-info"
    found = [path.name for path in folder.glob(f"lib/python*/site-packages/{begin}*{end}")]
    names = sorted(name.removeprefix(begin).removesuffix(end) for name in found)
    if names == [release.version]:
        return
    raise refusal(
        "AOTC-E558",
        str(release),
        ", ".join(names) or f"no {release.package} after the installation",
        cause="version-spelling-does-not-match",
        expected=release.version,
        hint=f"pass `--with {release.package}=={names[0]}`"
        if names
        else "check which index pip or uv is configured to use",
    )


def _run(command: Sequence[str], where: str, wanted: Sequence[str], processes: Processes) -> None:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    with processes.start(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1"},
        encoding="utf-8",
        errors="replace",
    ) as process:
        said = process.communicate()[0].strip()
    if process.returncode != 0:
        raise ResourceError(why(where, wanted, said, command[0]))


def why(where: str, wanted: Sequence[str], said: str, tool: str) -> Finding:
    """Return the finding for an installer's output: AOTC-E557, E558 or E559."""
    lines = said.splitlines()[-LINES_SHOWN:]
    versions = VERSIONS.search(said)
    known = versions[1] if versions else ""
    known = "" if known == "none" else known
    if NETWORK.search(said) and not known:
        return finding("AOTC-E557", where, quote(f"no answer for {', '.join(wanted)}", lines))
    if NOT_THERE.search(said):
        kind = f"{platform.python_implementation()} {platform.python_version()}"
        found = known or quote("no versions", lines)
        expected = f"wheels for {kind} on {sys.platform} {platform.machine()}"
        hint = "choose a version that the index has for this Python, or another Python"
        return finding("AOTC-E558", where, found, expected=expected, hint=hint)
    return finding("AOTC-E559", where, quote(f"{Path(tool).name} failed", lines))
