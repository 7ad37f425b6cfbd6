"""`aotc serve` is `aotc-runtime serve`, by the name that people type."""

import json
import subprocess
import sys
from pathlib import Path

from waiting import SECONDS

from tests.conftest import Bundle

AOTC = Path(sys.executable).with_name("aotc")


def test_serve_runs_the_runtimes_server_in_its_place(digits_bundle: Bundle) -> None:
    bundle, trust = map(str, digits_bundle)
    command = [str(AOTC), "serve", bundle, "--trust", trust, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        events = []
        for line in process.stdout:
            events.append(json.loads(line)["event"])
            if events[-1] == "ready":
                process.terminate()
        assert process.wait(SECONDS) == 0
    assert events == ["listening", "serving", "ready", "ending", "ended"]


def test_refusals_have_the_exit_code_of_the_server(digits_bundle: Bundle, tmp_path: Path) -> None:
    command = [str(AOTC), "serve", str(digits_bundle[0]), "--trust", str(tmp_path / "none.toml")]
    done = subprocess.run([*command, "--port", "0"], capture_output=True, text=True)
    assert done.returncode == 5 and "AOTC-E308" in done.stderr
    usage = subprocess.run([*command[:2], "--port", "0"], capture_output=True, text=True)
    assert (usage.returncode, usage.stdout) == (2, "")
    assert "usage: aotc-runtime serve --trust FILE" in usage.stderr
