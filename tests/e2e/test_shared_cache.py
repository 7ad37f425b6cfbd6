"""Hosts that share a cache build what one of them has built already, whoever else writes there."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from aotc.bundle.sign.signer import LocalSigner, generate_key_pair
from aotc.cli.command_group import cli
from aotc.commands.remote_cache.remote_cache_service import share
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.verification.public_keys import load_public_key
from tests.small_manifests import one_function
from tests.waiting import until

MANIFEST = one_function("shared", "[2, 8]", module="program", weights='init = "program:init"')
PROGRAM = """
import jax.numpy as jnp
def init():
    return {"w": jnp.arange(8.0)}
def f(params, x):
    return jnp.tanh(x * params["w"])
"""
SERVER = Path(__file__).parents[1] / "unit/commands/remote_cache/http_storage.py"

OURS, STRANGER = LocalSigner.ephemeral(), LocalSigner.ephemeral()


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def url(storage: Path) -> Iterator[str]:
    command = [sys.executable, str(SERVER), str(storage), "good"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/cache"
        process.kill()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "shared.toml").write_text(MANIFEST)
    (folder / "program.py").write_text(PROGRAM)
    return folder


def built(project: Path, folder: Path, url: str, *, by: LocalSigner | None = None) -> Built:
    """A build on a host whose own cache is in a folder; all trust our key."""
    folder.mkdir(exist_ok=True)
    trusted = {OURS.key_id: load_public_key(OURS.public_pem(), "", "")}
    return build(
        project / "shared.toml",
        folder / "shared.aotb",
        BuildOptions(cache=share(LocalStore(folder / "cache", 10**9), url, by, trusted)),
    )


@pytest.fixture(scope="module")
def first(project: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(project, tmp_path_factory.mktemp("first"), url, by=OURS)


def ran(built: Built) -> set[str]:
    return {done.task.name for done in built.tasks if not done.cached}


EVERYTHING = {
    "capture",
    "reference",
    "executable f for cpu-x86-64-v3",
    "parity of cpu-x86-64-v3",
    "pack",
}


def test_other_hosts_build_is_reused(first: Built, project: Path, url: str, tmp_path: Path) -> None:
    assert ran(first) == EVERYTHING and not first.notes
    again = built(project, tmp_path, url)
    assert ran(again) == {"capture", "pack"}
    assert again.bundle.root_digest == first.bundle.root_digest
    assert not again.notes


def test_initial_state_is_found(first: Built, project: Path, url: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    built(project, here, url)
    try:
        (project / "program.py").write_text(PROGRAM.replace("tanh", "sin"))
        built(project, there, url, by=OURS)
        assert ran(built(project, here, url)) == {"capture", "pack"}
    finally:
        (project / "program.py").write_text(PROGRAM)


@pytest.mark.parametrize("damage", ["changed", "stranger"])
def test_entries_that_do_not_count_are_made_anew_with_a_note(
    damage: str, first: Built, project: Path, url: str, storage: Path, tmp_path: Path
) -> None:
    kept = {path: path.read_bytes() for path in storage.iterdir()}
    try:
        if damage == "stranger":
            for path in kept:
                path.unlink()
            built(project, tmp_path / "theirs", url, by=STRANGER)
        else:
            for path, data in kept.items():
                path.write_bytes(data[:-1] + b"?")
        found = built(project, tmp_path / "ours", url)
    finally:
        for path, data in kept.items():
            path.write_bytes(data)
    assert ran(found) == EVERYTHING
    assert found.bundle.root_digest == first.bundle.root_digest
    word = "no key" if damage == "stranger" else "damaged"
    assert any(word in note and "not used" in note for note in found.notes)


def test_command_writes_and_reads_with_keys(project: Path, storage: Path, tmp_path: Path) -> None:
    key = generate_key_pair(tmp_path / "ci", None)
    remote = ["--remote-cache", f"file://{tmp_path}/elsewhere"]
    for number, options in enumerate(
        [["--cache-key", str(key.private)], ["--cache-trust", str(key.public)]]
    ):
        output = ["-o", str(tmp_path / "x.aotb"), "--cache", str(tmp_path / f"cache{number}")]
        result = CliRunner().invoke(
            cli, ["build", str(project / "shared.toml"), *output, *remote, *options, "--explain"]
        )
        assert result.exit_code == 0, result.output
    assert result.output.count("cached") >= 4
    assert (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cache-trust", "x.pub"), "go with --remote-cache"),
        (("--cache", "s3://bucket/x"), "there is --remote-cache"),
    ],
)
def test_useless_options_are_rejected(options: tuple[str, ...], words: str, project: Path) -> None:
    result = CliRunner().invoke(cli, ["build", str(project / "shared.toml"), *options])
    assert result.exit_code == 2 and words in result.output


def test_ctrl_c_does_not_wait_for_server(project: Path, storage: Path, tmp_path: Path) -> None:
    key = generate_key_pair(tmp_path / "ci", None)
    command = [sys.executable, str(SERVER), str(storage), "silent"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/cache"
        # For whom a minute of silence is nothing.
        program = "from aotc.commands.remote_cache.http_blobs import HttpBlobs; "
        program += "HttpBlobs.seconds = 3600; "
        program += "from aotc.cli.main import main; main()"
        build_command = [sys.executable, "-c", program, "build", "shared.toml"]
        options = ["-o", str(tmp_path / "x.aotb"), "--cache", str(tmp_path / "cache")]
        remote = ["--remote-cache", url, "--cache-key", str(key.private)]
        with subprocess.Popen(
            [*build_command, *options, *remote], cwd=project, stderr=subprocess.PIPE, text=True
        ) as process:
            until(lambda: connected(server.pid), "the build asks the server", process)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        server.kill()
    assert process.returncode == 130
    assert said.splitlines()[-1] == "aborted"


def connected(process: int) -> bool:
    """Return whether somebody is connected to this process."""
    connections = psutil.Process(process).net_connections("tcp")
    return any(found.status == psutil.CONN_ESTABLISHED for found in connections)
