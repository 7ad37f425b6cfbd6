"""Parts of keys: the code of the toolchain and its packages, the build manifest, and the host.

Every key of a build manifest counts unless it is in `APART` with the reason why it cannot matter to
a program's results, so that a new key causes another run of the program by default.
"""

import hashlib
import os
import platform
import sys
import tomllib
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import aotc
import aotc_runtime
from aotc.capture import installed_packages
from aotc.capture.installed_packages import Installed
from aotc.compile.target_files import builtin_folder
from aotc.pipeline.cached_tasks import Parts
from aotc_runtime.base.digest import sha256
from aotc_runtime.system.host_probe import libc

CPU_FACTS = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags"}
    | {"CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"}
)
"""Fields of /proc/cpuinfo, on x86 and Arm, on which results and code generated for the host can
depend."""

LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
"""Variables that decide which file a library's name stands for."""

NATIVE_PREFIXES = (
    *("OMP_", "KMP_", "OPENBLAS_", "MKL_", "BLIS_", "NUMEXPR_", "GOTO_", "MALLOC_", "GLIBC_"),
)


def toolchain_code() -> Parts:
    """Return digests of the code of aotc and aotc-runtime, as parts of a key."""
    return {f"code of {name}": digest for name, digest in code_digests().items()}


@cache
def code_digests() -> Mapping[str, str]:
    """Map aotc's distributions to the digest of their code, whatever their versions.

    The same sources give the same digest as a checkout, installed from a wheel, or copied: the
    built-in targets count as a part of the package wherever they lie.
    """
    toolchain = {
        **_files_below(Path(aotc.__path__[0])),
        **_files_below(builtin_folder(), "targets/"),
    }
    runtime = _files_below(Path(aotc_runtime.__path__[0]))
    return {"aotc": _digest_of(toolchain), "aotc-runtime": _digest_of(runtime)}


def _files_below(folder: Path, prefix: str = "") -> dict[str, Path]:
    """Return files by name, without what Python compiled and what systems and editors hide."""
    found: dict[str, Path] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = Path(place).relative_to(folder).as_posix()
        for name in files:
            if not name.startswith(".") and not name.endswith(".pyc"):
                found[prefix + (name if below == "." else f"{below}/{name}")] = Path(place, name)
    return found


def _digest_of(files: Mapping[str, Path]) -> str:
    lines = (f"{name} {sha256(path.read_bytes())}" for name, path in sorted(files.items()))
    return sha256("\n".join(lines).encode())


def package_parts(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Installed distributions as parts of a key."""
    for name in names:
        try:
            found = installed_packages.find_package(name)
        except PackageNotFoundError:
            continue
        yield from distribution_components(name, found)


def distribution_components(name: str, found: Installed) -> Iterator[tuple[str, str]]:
    """Yield the components for a distribution: version, digest of its files, changes.

    Each file that was changed after the installation is a component.
    """
    yield f"package {name}", found.version
    yield f"files of package {name}", found.digest
    yield from _modified_files(name, found)


def _modified_files(name: str, found: Installed) -> Iterator[tuple[str, str]]:
    """Yield files that differ from RECORD.

    Installers write RECORD last, so that only younger files, or those of another size, are read.
    """
    try:
        recorded = os.stat(found.record).st_mtime_ns
    except OSError:
        recorded = 0
    for path, stated, size in found.hashed:
        place = found.folder + path
        try:
            status = os.stat(place)
            if status.st_mtime_ns <= recorded and size in ("", str(status.st_size)):
                continue
            data = Path(place).read_bytes()
        except OSError:
            yield f"file of package {name} {path}", "none"
            continue
        made = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if made != stated:
            yield f"file of package {name} {path}", sha256(data)


@cache
def host_parts() -> Parts:
    """Return the processor, how many CPUs this process may use, the C library, and Python."""
    return {
        "host architecture": platform.machine(),
        "host processor": _processor(Path("/proc/cpuinfo")),
        "host processors": str(len(os.sched_getaffinity(0))),
        "host C library": libc(),
        "python": sys.version,
    }


def _processor(path: Path) -> str:
    """Return the digest of what the system says about the first processor."""
    try:
        block = path.read_text("utf-8").partition("\n\n")[0]
    except OSError:
        block = ""
    facts = [line for line in block.splitlines() if line.partition(":")[0].strip() in CPU_FACTS]
    return sha256("\n".join(facts).encode())


def library_parts(environment: Mapping[str, str]) -> Parts:
    """Return variables that decide which libraries a process loads."""
    return {
        f"environment {n}": variable(n, environment) for n in LIBRARY_VARIABLES if n in environment
    }


def native_parts(environment: Mapping[str, str]) -> Parts:
    """Return variables on which the numbers of native code can depend: threads, kernels, memory."""
    names = sorted(name for name in environment if name.startswith(NATIVE_PREFIXES))
    return {f"environment {name}": variable(name, environment) for name in names}


def variable(name: str, environment: Mapping[str, str]) -> str:
    """Return the digest of a variable's value, which may be a secret; or that it is not set."""
    if name not in environment:
        return "not set"
    return sha256(environment[name].encode(errors="surrogateescape"))


APART: Mapping[tuple[str, ...], str] = {
    ("name",): "the bundle's, which pack writes",
    ("version",): "the bundle's, which pack writes",
    ("targets",): "those that are built, in place of which --target may name others, are a part "
    "of their own",
    ("license",): "of the model card, which pack writes",
    ("owners",): "likewise",
    ("engines",): "which compilers the modules go to: all of processors take the same ones",
    ("target", "*", "engines"): "likewise",
    ("tune",): "which of the finished executables are taken",
    ("assets",): "files that travel with the program, which pack writes",
    ("gates",): "compared with what was built, in every build",
    ("entry_points", "*", "tolerance"): "parity compares with it; so do trials in plain JAX, whose "
    "plan is a part of their key and holds it",
    ("entry_points", "*", "evaluation"): "a task of its own, whose key holds it",
    ("target", "*", "memory_limit"): "compared with what was built, in every build",
}
"""Keys that neither the capture nor a fixture's reference depends on, with the reason; "*" is any
name. A program that opens the manifest itself depends on all of it, as on any other file.
"""

NAMED = ("weights", "dimensions", "precision", "target", "entry_points")
"""Tables by name, whose order means nothing: a component for each name."""


def program_sections(text: bytes) -> dict[str, str]:
    """Map each section, as "build manifest entry_points.predict", to a digest.

    `text` is that of a valid manifest. Comments, spaces and the order of named tables do not count;
    the order of keys within them does.
    """
    return dict(sorted(_section_parts(tomllib.loads(text.decode()))))


def _section_parts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if (key,) in APART:
            continue
        if key not in NAMED:
            yield f"build manifest {key}", _number_or_digest(value)
            continue
        for name, section in value.items():
            left = {k: v for k, v in section.items() if (key, "*", k) not in APART}
            if left or not section:
                yield f"build manifest {key}.{name}", _number_or_digest(left)


def _number_or_digest(value: Any) -> str:
    """Return an integer unchanged, and the digest of any other value's `repr`.

    That distinguishes 1.0 from 1, a date from its text, and orders of keys.
    """
    return str(value) if isinstance(value, int) else sha256(repr(value).encode())
