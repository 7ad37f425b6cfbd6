"""Tests of installed packages, and of the errors of installers."""

from pathlib import Path

import pytest

from aotc.base.package_install import require_spelling, requirements, why
from aotc_runtime.base.errors import Finding, ResourceError
from aotc_runtime.schema.certified_releases import Release

PIP_UNREACHABLE = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after \
connection broken by 'NewConnectionError(...): Failed to establish a new connection: [Errno 111] \
Connection refused')': /simple/jaxlib/
ERROR: Could not find a version that satisfies the requirement jaxlib==0.12.0 (from versions: none)
ERROR: No matching distribution found for jaxlib==0.12.0"""
PIP_NO_SUCH = """\
ERROR: Could not find a version that satisfies the requirement jaxlib==0.12.9 (from versions: \
0.11.2, 0.12.0, 0.12.0.1)
ERROR: No matching distribution found for jaxlib==0.12.9"""
PIP_NO_PROJECT = """\
ERROR: Could not find a version that satisfies the requirement jaxlib==0.12.9 (from versions: none)
ERROR: No matching distribution found for jaxlib==0.12.9"""
UV_UNREACHABLE = """\
error: Failed to fetch: `https://pypi.org/simple/jaxlib/`
  Caused by: error sending request for url (https://pypi.org/simple/jaxlib/)
  Caused by: client error (Connect)
  Caused by: dns error: failed to lookup address information"""
UV_NO_WHEEL = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because jaxlib==0.11.2 has no wheels with a matching Python version tag (e.g., `cp315`) and
      you require jaxlib==0.11.2, we can conclude that your requirements are unsatisfiable."""
NO_VENV = """\
The virtual environment was not created successfully because ensurepip is not
available.  On Debian/Ubuntu systems, you need to install the python3-venv package"""


def _why(said: str, tool: str) -> Finding:
    return why("jaxlib 0.12.9", requirements(Release("jaxlib", "0.12.9")), said, tool)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (PIP_UNREACHABLE, "AOTC-E557"),
        (UV_UNREACHABLE, "AOTC-E557"),
        (PIP_NO_SUCH, "AOTC-E558"),
        (PIP_NO_PROJECT, "AOTC-E558"),
        (UV_NO_WHEEL, "AOTC-E558"),
        (NO_VENV, "AOTC-E559"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "AOTC-E559"),
        ("", "AOTC-E559"),
    ],
)
def test_a_failed_installation_is_told_apart(said: str, code: str) -> None:
    found = _why(said, "/usr/bin/pip")
    assert (found.code, found.where) == (code, "jaxlib 0.12.9")


def test_versions_that_there_are_are_named() -> None:
    assert "0.11.2, 0.12.0, 0.12.0.1" in _why(PIP_NO_SUCH, "pip").found


def test_one_lost_connection_does_not_hide_that_a_version_does_not_exist() -> None:
    lost = PIP_UNREACHABLE.splitlines()[0]
    assert _why(f"{lost}\n{PIP_NO_SUCH}", "pip").code == "AOTC-E558"


def test_the_runtimes_requirements_are_installed_and_nothing_else() -> None:
    wanted = requirements(Release("jaxlib", "0.12.0"))
    assert wanted[0] == "jaxlib==0.12.0"
    names = {text.split(">")[0].split("=")[0].strip() for text in wanted}
    assert names == {"jaxlib", "cryptography", "msgspec", "numpy"}


def test_another_spelling_of_a_version_is_told_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.13/site-packages/jaxlib-0.12.0.dist-info").mkdir(parents=True)
    require_spelling(tmp_path, Release("jaxlib", "0.12.0"))
    with pytest.raises(ResourceError) as refused:
        require_spelling(tmp_path, Release("jaxlib", "0.12"))
    (found,) = refused.value.findings
    assert (found.code, found.where, found.found) == ("AOTC-E558", "jaxlib 0.12", "0.12.0")
    assert "--with jaxlib==0.12.0" in found.hint


def test_a_package_is_found_by_the_name_of_its_folder(tmp_path: Path) -> None:
    wanted = Release("iree-base-runtime", "3.12.0")
    assert requirements(wanted)[0] == "iree-base-runtime==3.12.0"
    with pytest.raises(ResourceError, match="no iree-base-runtime after"):
        require_spelling(tmp_path, wanted)
    (tmp_path / "lib/python3.13/site-packages/iree_base_runtime-3.12.0.dist-info").mkdir(
        parents=True
    )
    require_spelling(tmp_path, wanted)
