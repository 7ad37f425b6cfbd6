"""Native code is judged by the symbols that it asks of the C library."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from aotc.compile.binary.elf import Interface, interface
from aotc.pipeline.watching import native_code

HARMLESS = [
    *("malloc", "memcpy", "__memcpy_chk", "strlen", "__cxa_finalize", "pthread_create", "sqrtf"),
    *("PyList_New", "PyImport_ImportModule", "_Py_Dealloc", "__gxx_personality_v0", "snprintf"),
    *("_ZSt20__throw_length_errorPKc", "_ZNSt6localeC1Ev", "_Unwind_Resume", "__isnan"),
]


def shared_object(
    asked: list[str], libraries: list[str] | None = None, offered: list[str] | None = None
) -> bytes:
    """An ELF file of tables alone: who asks for these symbols, needs these libraries, and defines
    those symbols.
    """
    names = b"\0"
    symbols = bytes(24)
    for section, each in ((0, asked), (1, offered or [])):
        for symbol in each:
            symbols += struct.pack("<IBBHQQ", len(names), 0x12, 0, section, 0, 0)
            names += symbol.encode() + b"\0"
    dynamic = b""
    for library in libraries or []:
        dynamic += struct.pack("<qQ", 1, len(names))
        names += library.encode() + b"\0"
    dynamic += bytes(16)
    body, headers = b"", bytes(64)
    for kind, data, link in ((3, names, 0), (11, symbols, 1), (6, dynamic, 1)):
        headers += struct.pack(
            "<IIQQQQIIQQ", 0, kind, 0, 0, 64 + len(body), len(data), link, 0, 1, 0
        )
        body += data
    start = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0,
                        64 + len(body), 0, 64, 0, 0, 64, 4, 0)  # fmt: skip
    return start + body + headers


def test_an_interface_is_what_is_asked_needed_and_offered() -> None:
    data = shared_object(["open", "free"], ["libz.so.1"], ["PyInit_x"])
    assert interface(data) == Interface(
        ("libz.so.1",), frozenset({"open", "free"}), frozenset({"PyInit_x"})
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF", shared_object([])[:80], shared_object(["open"])[:-30], b"#!/bin/sh\n" * 99],
)
def test_what_says_nothing_of_symbols_is_no_shared_object(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ELF|symbols"):
        interface(data)
    (tmp_path / "x.so").write_bytes(data)
    assert native_code.reaches(str(tmp_path / "x.so")) == "no symbols in x.so"


@pytest.mark.parametrize(
    "symbol",
    [
        *("open", "open64", "fopen64", "freopen", "creat", "opendir", "stat", "realpath"),
        *("getenv", "secure_getenv", "environ", "__environ", "socket", "connect", "getaddrinfo"),
        *("time", "clock", "clock_gettime", "gettimeofday", "rand", "getrandom", "getpid", "uname"),
        *("syscall", "dlopen", "dlsym", "system", "popen", "fork", "execve", "posix_spawn"),
        *("PyTime_Time", "_PyOS_URandom", "_Py_stat", "_Py_open_noraise",
        "_ZNSt6chrono3_V212system_clock3nowEv"),
        "_ZNSt13basic_filebufIcSt11char_traitsIcEE4openEPKcSt13_Ios_Openmode",
        *("_ZNSt6localeC1EPKc", "mkstemp"),
        *("_ZNSt13random_device9_M_getvalEv", "_ZNSt10filesystem6statusERKNS_7__cxx114pathE"),
        "what_nobody_knows",
    ],
)  # fmt: skip
def test_a_symbol_that_may_leave_memory_is_told(symbol: str, tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(shared_object([*HARMLESS, symbol]))
    assert native_code.reaches(str(path)) == f"{symbol} in x.so"


def test_native_code_that_asks_for_nothing_else_stays_in_memory(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(shared_object(HARMLESS, ["libc.so.6", "libstdc++.so.6"]))
    assert native_code.reaches(str(tmp_path / "x.so")) == ""


def test_libraries_that_are_brought_along_are_judged_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, library = tmp_path / "x.so", tmp_path / "libown.so.1.2"
    mapped = native_code._mapped() | {str(library)}
    monkeypatch.setattr(native_code, "_mapped", lambda: mapped)
    judge = native_code.reaches.__wrapped__  # type: ignore[attr-defined]
    path.write_bytes(shared_object(["own_sum"], ["libown.so.1"]))
    for asked, reached in ((["malloc"], ""), (["getenv"], "getenv in libown.so.1.2")):
        library.write_bytes(shared_object(asked, [], ["own_sum"]))
        clear()
        assert judge(str(path)) == reached
        assert native_code.needed(str(path)) == {str(library)}
    # What both the system and a library define is the system's.
    path.write_bytes(shared_object(["own_sum", "open"], ["libown.so.1"]))
    library.write_bytes(shared_object(["malloc"], [], ["own_sum", "open"]))
    clear()
    assert judge(str(path)) == "open in x.so"
    mapped = mapped - {str(library)}
    clear()
    assert judge(str(path)) == "libown.so.1, which x.so needs"


def clear() -> None:
    """Have the files read again."""
    native_code.needed.cache_clear()
    native_code._interface.cache_clear()
