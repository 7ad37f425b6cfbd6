"""Somebody changes the file between its verification and its use: what runs is what was hashed."""

import importlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime.base.errors import AotcError
from aotc_runtime.verification.verify_bundle import Compatible
from tests.conftest import Bundle
from tests.refusals import error_of
from tests.running import python

OWNERS = {
    "open_bundle": "aotc_runtime.loader.bundle_loader",
    "accept_bundle": "aotc_runtime.verification.verify_bundle",
    "require_compatible": "aotc_runtime.verification.verify_bundle",
    "finish": "",
    "make_resident": "aotc_runtime.serving.resident_bundle",
}
"""Steps of `load`, and the module in which each is looked up; `finish` is a method."""

Change = Callable[[Path], None]


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"x" * path.stat().st_size)
    other.replace(path)


def removed(path: Path) -> None:
    path.unlink()


def rewritten(path: Path) -> None:
    """All of it in place, as nobody should: the weights, which are mapped, as well."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(bytes(size))


def answer(bundle: aotc_runtime.LoadedBundle) -> bytes:
    image = np.arange(64, dtype=np.float32).reshape(1, 64)
    result = bundle["predict"](image)
    return b"".join(np.asarray(result[name]).tobytes() for name in sorted(result))


@pytest.fixture
def copy(digits_bundle: Bundle, tmp_path: Path) -> Path:
    path = tmp_path / "digits.aotb"
    path.write_bytes(digits_bundle[0].read_bytes())
    return path


@pytest.fixture
def expected(digits_bundle: Bundle) -> bytes:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        return answer(bundle)


AFTER = pytest.mark.parametrize("step", OWNERS)


def meanwhile(step: str, change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Change something right after this step of `load` has returned."""
    owner = Compatible if step == "finish" else importlib.import_module(OWNERS[step])
    function = getattr(owner, step)

    def and_then(*arguments: object, **named: object) -> object:
        result = function(*arguments, **named)
        change()
        return result

    monkeypatch.setattr(owner, step, and_then)


@AFTER
@pytest.mark.parametrize("change", [replaced, removed])
def test_a_file_that_is_replaced_or_removed_while_it_loads_is_the_one_that_was_opened(
    step: str,
    change: Change,
    copy: Path,
    expected: bytes,
    digits_bundle: Bundle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meanwhile(step, lambda: change(copy), monkeypatch)
    with aotc_runtime.load(copy, trust=digits_bundle[1]) as bundle:
        assert answer(bundle) == expected


@AFTER
def test_a_file_that_is_rewritten_while_it_loads_never_becomes_ready(
    step: str, copy: Path, digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is hashed, the digests tell; afterwards executables are copies, and other weights
    do not match the fixtures."""
    meanwhile(step, lambda: rewritten(copy), monkeypatch)
    refused = error_of(AotcError, aotc_runtime.load, copy, trust=digits_bundle[1])
    assert (
        refused.code
        == {
            "open_bundle": "AOTC-E106",
            "accept_bundle": "AOTC-E201",
            "require_compatible": "AOTC-E201",
            "finish": "AOTC-E131",
            "make_resident": "AOTC-E701",
        }[step]
    )


@pytest.mark.parametrize("change", [replaced, rewritten, removed])
def test_changed_file_is_verified_again(change: Change, copy: Path, digits_bundle: Bundle) -> None:
    verify = ("-m", "aotc_runtime", "verify", copy, "--trust", digits_bundle[1])
    assert python(*verify).returncode == 0
    change(copy)
    refused = error_of(AotcError, aotc_runtime.load, copy, trust=digits_bundle[1])
    assert refused.code in ("AOTC-E103", "AOTC-E105", "AOTC-E108")


TRUNCATED = """
import importlib, os, sys
from pathlib import Path
import aotc_runtime
from aotc_runtime.loader.verify_report import verify_report
from aotc_runtime.verification.verify_bundle import Compatible
path, name = Path(sys.argv[1]), sys.argv[4]
owner = Compatible if name == "finish" else importlib.import_module(sys.argv[3])
owner = getattr(owner, "verify_bundle", owner)  # which the examination names
step = getattr(owner, name)
def and_then(*arguments, **named):
    result = step(*arguments, **named)
    os.truncate(path, 4096)
    return result
setattr(owner, name, and_then)
if "verify_report" in sys.argv[3] or "bundle_examination" in sys.argv[3]:
    sys.exit(str([each.title for each in verify_report(path, Path(sys.argv[2]), "host").findings]))
try:
    aotc_runtime.load(path, trust=sys.argv[2])
except aotc_runtime.AotcError as error:
    sys.exit(error.code)
"""


def truncated(copy: Path, trust: Path, owner: str, step: str) -> subprocess.CompletedProcess[str]:
    return python("-c", TRUNCATED, copy, trust, owner, step)


@AFTER
def test_load_of_a_truncated_file_is_refused_or_ends_the_process(
    step: str, copy: Path, digits_bundle: Bundle
) -> None:
    """A load maps weights, and a page that is gone is a SIGBUS, which no reader can catch."""
    done = truncated(copy, digits_bundle[1], OWNERS[step], step)
    assert done.returncode in (1, -signal.SIGBUS), done
    assert done.returncode != 1 or done.stderr.startswith("AOTC-E"), done.stderr


@pytest.mark.parametrize(
    "step",
    [
        "loader.verify_report.open_streamed",
        *(f"verification.bundle_examination.{name}" for name in ("parse", "collect", "unpack")),
    ],
)
def test_verify_of_a_truncated_file_is_refused(
    step: str, copy: Path, digits_bundle: Bundle
) -> None:
    """It reads the file, and uses no map."""
    owner, _, name = f"aotc_runtime.{step}".rpartition(".")
    done = truncated(copy, digits_bundle[1], owner, name)
    assert (done.returncode, done.stderr) == (1, "['file was truncated while it was read']\n")


def test_file_cut_before_loading_is_refused(copy: Path, digits_bundle: Bundle) -> None:
    os.truncate(copy, 4096)
    assert error_of(AotcError, aotc_runtime.load, copy, trust=digits_bundle[1]).code == "AOTC-E103"
