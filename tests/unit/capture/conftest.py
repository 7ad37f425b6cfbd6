"""`capture`: a program and its manifest as text, through the capture worker, in about 0.1 s."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest
from capturing import HEADER, IMPORTS, ONE_INPUT, Capture, Outcome

from aotc.base import constants
from aotc.base.workers.worker_child import FINDINGS, JOB
from aotc.base.workers.worker_environment import clean
from aotc.config.build_manifest import read_build_manifest
from aotc.pipeline.build_plan import resolve_target
from aotc.pipeline.children.program_worker import Job
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc_runtime.base.errors import AotcError, Finding


@pytest.fixture(scope="session")
def capture_server() -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("capture_server.py")
    with subprocess.Popen(
        # jax warns of every fork; here it happens before jax has started a thread.
        [sys.executable, "-W", "ignore::RuntimeWarning", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean({"JAX_PLATFORMS": "cpu"}),
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def capture(capture_server: subprocess.Popen[str], tmp_path: Path) -> Capture:
    def run(
        source: str,
        manifest: str = ONE_INPUT,
        *,
        header: str = "",
        files: dict[str, bytes] | None = None,
        keep_going: bool = False,
        name: str = "scratch",
    ) -> Outcome:
        folder = tmp_path / name
        folder.mkdir()
        for file_name, data in (files or {}).items():
            (tmp_path / file_name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file_name).write_bytes(data)
        (tmp_path / "program.py").write_text(IMPORTS + dedent(source))
        text = HEADER + header + dedent(manifest)
        (tmp_path / "program.toml").write_text(text)
        try:
            parsed = read_build_manifest(tmp_path / "program.toml")
        except AotcError as error:
            return Outcome(error.exit_code, error.findings, Scratch(folder), "")
        wanted = {name: parsed.executables(name) for name in parsed.targets}
        targets = {name: resolve_target(name, tmp_path, "").platform for name in wanted}
        program = ProgramJob(parsed, targets, wanted, keep_going)
        options = {constants.CONSTANTS_AS_ARGUMENTS: "1"}
        job = Job("capture_worker", str(folder), program.encode(), options)
        (folder / JOB).write_bytes(msgspec.msgpack.encode(job))
        assert capture_server.stdin is not None and capture_server.stdout is not None
        capture_server.stdin.write(json.dumps(str(folder)) + "\n")
        capture_server.stdin.flush()
        status = int(capture_server.stdout.readline())
        file = folder / FINDINGS
        findings = msgspec.json.decode(file.read_bytes()) if file.exists() else []
        return Outcome(
            exit_code=status,
            findings=tuple(Finding(**finding) for finding in findings),
            scratch=Scratch(folder),
            stderr=(folder / "stderr").read_text(),
        )

    return run
