"""Whether native code computes in memory alone, by the symbols that it asks of the C library.

A shared object that never asks for `open`, `getenv`, `socket` or `clock_gettime` cannot reach
files, variables, the network or the clock but through Python, which a recorder watches. So each
symbol has to be one that is known to stay in memory; any other counts as one that does not. What no
symbol tells are system calls without the C library, which extension modules do not make.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from aotc.compile.binary.elf import Interface, interface

BASE = re.compile(
    r"(libc|libm|libpthread|libdl|librt|libgcc_s|libstdc\+\+|libpython3[.\d]*|ld-linux[\w-]*)"
    r"\.so\.?[.\d]*\Z"
)
"""Libraries of the system whose symbols are judged one by one, by their names."""

ARITHMETIC = re.compile(r"(libm|libgcc_s)\.so\.")
"""Libraries that compute in memory alone, whatever is called."""

IN_MEMORY = re.compile(
    r"_*(mem|str|stp|wcs|wmem|wcr|rawmem)\w*|bcmp|bcopy|bzero"
    r"|malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|malloc_(usable_size|trim)"
    r"|mmap(64)?|munmap|mremap|mprotect|madvise"  # a file would have to be opened first
    r"|isw?(alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit)"
    r"|tow?(lower|upper)|towctrans|wctrans|__ctype_\w+|localeconv"
    r"|__(isnan|isinf|finite)[fl]?"
    r"|qsort(_r)?|bsearch|l?l?div|l?l?abs|ato(i|l|ll|f)|(__isoc\d+_)?v?sscanf"
    r"|_*(sig)?(set|long)jmp(_chk)?|abort|exit|_exit|atexit|raise|signal|sig(action|procmask|\w+set)"
    r"|_*v?[sf]?n?printf(_chk)?|v?asprintf|f?put[cs]|putchar|fwrite|fflush|perror|std(in|out|err)"
    r"|fdopen|f(read|close|seeko?|tello?)(64)?|fe(of|rror)|fileno|getc|ungetc|rewind|setv?buf"
    r"|read|write|close|lseek(64)?"  # of what Python has opened
    r"|_*pthread_\w+|sem_(init|destroy|post|wait|trywait|timedwait)|sched_yield"
    r"|gmtime(_r)?|timegm"
    r"|__(errno_location|stack_chk_fail|assert_fail|tls_get_addr|gmon_start__|gxx_personality_v0)"
    r"|__(de)?register_(frame|atfork)|__(once_proxy|dynamic_cast|dso_handle)|__cxa_\w+"
    r"|_ITM_\w+|_Unwind_\w+"
)

OF_PYTHON = re.compile(r"_?Py\w+")
"""Symbols of Python's C API: what they open is heard by audit hooks."""
UNHEARD = re.compile(
    r"_?PyTime_\w+|_PyOS_\w+"
    r"|_Py_(w?stat|fstat\w*|wreadlink|wrealpath|wgetcwd|read|open_noraise)"
)
"""Symbols of Python's C API whose work audit hooks do not hear."""

OF_CPP = re.compile(r"_Z\w+")
"""Symbols of the C++ library."""
BEYOND_MEMORY = re.compile(r"file|fstream|random_device|chrono|tzdb|6localeC[12]EPKc")
"""Parts of the names of those that open files, ask clocks or chance, or read a locale by name."""
TELLING = re.compile(r"f?open(64|at)?|socket|secure_getenv|getenv|clock_gettime|time")
"""What a message names rather than others."""


@cache
def reaches(path: str) -> str:
    """A symbol by which a shared object may reach beyond memory unseen, with the name of the file
    that asks for it, such as "open64 in libhdf5.so"; empty if there is none.
    """
    files = [path, *sorted(needed(path))]
    found = {file: _interface(file) for file in files}
    known = {Path(file).name for file in files}
    of_system = _of_system()
    own = frozenset[str]().union(*(each.offered for each in found.values() if each)) - of_system
    for file, each in found.items():
        name = Path(file).name
        if each is None:
            return f"no symbols in {name}"
        for library in each.libraries:
            if not BASE.match(library) and not any(_is_named(library, file) for file in known):
                return f"{library}, which {name} needs"
        asked = [symbol for symbol in each.asked - own if not _stays_in_memory(symbol)]
        if asked:
            telling = min(asked, key=lambda symbol: (not TELLING.fullmatch(symbol), symbol))
            return f"{telling} in {name}"
    return ""


@cache
def needed(path: str) -> frozenset[str]:
    """The libraries that a shared object has brought along: of those that it needs, directly or
    not, all but the system's base, as this process has loaded them.
    """
    found: set[str] = set()
    left = [path]
    while left:
        each = _interface(left.pop())
        for library in each.libraries if each else ():
            for file in _mapped():
                is_new = file not in found and not BASE.match(library)
                if is_new and _is_named(library, Path(file).name):
                    found.add(file)
                    left.append(file)
    return frozenset(found - {path})


def _is_named(library: str, file: str) -> bool:
    """Whether a file may be a library: where a link leads, `libz.so.1` is `libz.so.1.3.1`."""
    return file == library or file.startswith(f"{library}.")


def _stays_in_memory(symbol: str) -> bool:
    if OF_CPP.fullmatch(symbol):
        return not BEYOND_MEMORY.search(symbol)
    if OF_PYTHON.fullmatch(symbol):
        return not UNHEARD.fullmatch(symbol)
    return bool(IN_MEMORY.fullmatch(symbol)) or symbol in _arithmetic()


def look_anew() -> None:
    """Judge from here on by what the process has mapped by then."""
    for found in (_mapped, _of_system, _arithmetic):
        found.cache_clear()


@cache
def _interface(path: str) -> Interface | None:
    try:
        return interface(Path(path).read_bytes())
    except (OSError, ValueError):
        return None


@cache
def _mapped() -> frozenset[str]:
    """The files that this process has mapped."""
    lines = Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines()
    columns = (line.split(maxsplit=5) for line in lines)
    return frozenset(each[5] for each in columns if len(each) > 5 and each[5].startswith("/"))


def _base(pattern: re.Pattern[str]) -> frozenset[str]:
    """What libraries of the system define."""
    paths = [path for path in _mapped() if pattern.match(Path(path).name)]
    return frozenset[str]().union(*(each.offered for each in map(_interface, paths) if each))


@cache
def _of_system() -> frozenset[str]:
    """A symbol that both define is the system's: its libraries were loaded first."""
    return _base(BASE)


@cache
def _arithmetic() -> frozenset[str]:
    return _base(ARITHMETIC)
