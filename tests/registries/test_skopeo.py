"""A signed bundle through a registry and back by Debian's tools, as docs/bundle-format.md has it:
no byte of what is signed changes, and the signatures come along.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import aotc_runtime
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import ROOT
from tests.registries.docker_registry import MARKS, SKOPEO, running

pytestmark = MARKS


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of a registry that has nothing yet."""
    with running(tmp_path) as address:
        yield address


def commands() -> str:
    """The shell block of the page."""
    page = (ROOT / "docs" / "bundle-format.md").read_text("utf-8")
    section = page[page.index("### Through registries") :]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


def test_a_signed_bundle_comes_back_from_a_registry_with_the_bytes_that_were_signed(
    registry: str, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    bundle, policy = digits_bundle
    layout = tmp_path / "digits"
    layout.mkdir()
    subprocess.run(["tar", "-xf", bundle, "-C", layout], check=True)
    tool = tmp_path / "skopeo"
    tool.write_text(
        f'#!/bin/sh\ncommand=$1\nshift\nexec {SKOPEO} --insecure-policy $command "$@"\n'
    )
    tool.chmod(0o755)
    plain = commands().replace("registry.example.org", registry)
    plain = plain.replace(
        "skopeo copy", "skopeo copy --src-tls-verify=false --dest-tls-verify=false"
    )
    plain = plain.replace("skopeo list-tags", "skopeo list-tags --tls-verify=false")
    subprocess.run(
        ["bash", "-euc", plain],
        cwd=tmp_path,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    back = tmp_path / "fetched"
    assert open_bundle(back).digests() == open_bundle(bundle).digests()
    aotc_runtime.load(back, trust=policy).close()
