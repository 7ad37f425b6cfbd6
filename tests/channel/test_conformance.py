"""Cases of tuf-conformance that apply, with our command as the client: `make test-channel`."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

CHECKOUT = os.environ.get("AOTC_TUF_CONFORMANCE", "")
TOOLS = os.environ.get("AOTC_FAKETIME", "")

pytestmark = [
    pytest.mark.channel,
    pytest.mark.limit(3600),
    pytest.mark.skipif(
        not CHECKOUT, reason="a checkout of theupdateframework/tuf-conformance: test-channel"
    ),
]

ELSEWHERE = ("test_file_download", "test_updater_delegation_graphs", "test_static_repositories")
"""Files whose cases download targets, each of them: channels have no files to download."""

DOWNLOADING = ("test_implicit_refresh", "test_unusual_role_name")
"""Other cases that do."""

CLIENT = Path(__file__).with_name("client.py")


def test_the_cases_that_apply_pass(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    left_out = [f"--ignore=tuf_conformance/{name}.py" for name in ELSEWHERE]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "tuf_conformance", "-q", "-p", "no:cacheprovider"),
            *(f"--entrypoint={sys.executable} {CLIENT}", f"--junitxml={results}", *left_out),
            *("-k", " and ".join(f"not {name}" for name in DOWNLOADING)),
        ],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "PATH": os.pathsep.join(filter(None, [TOOLS, os.environ["PATH"]])),
            "PYTHONPATH": CHECKOUT,
        },
        stdout=sys.stderr,
        check=False,
    )
    cases = ElementTree.parse(results).getroot().iter("testcase")
    failed = {case.attrib["name"] for case in cases if case.find("failure") is not None}
    assert (failed, done.returncode) == (set(), 0)
