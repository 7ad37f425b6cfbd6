"""The same sources give the same bytes, whoever builds them, where and when."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from aotc.compile.mlir import mlir_context
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import MappedBundle, open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import MANIFESTS, Bundle, Once

VARIED = """
import jax
import jax.numpy as jnp
import numpy as np

TABLE = np.linspace(0, 1, 900, dtype="float32").reshape(30, 30)

def varied(x):
    noise = jax.random.normal(jax.random.key(3), (30,))
    kernel = jnp.sin(x[:9, :16].reshape(3, 3, 4, 4))
    dimensions = ("NHWC", "HWIO", "NHWC")
    image = jax.lax.conv_general_dilated(
        x.reshape(1, 15, 15, 4), kernel, (1, 1), "SAME", dimension_numbers=dimensions
    )
    large = jnp.tanh(jnp.broadcast_to(x[:, None], (30, 999, 30)) * noise)
    spread = x @ x.T + 30 * jnp.eye(30) + TABLE
    solved = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(spread @ spread.T), x)
    order = jnp.argsort(x[:, 0] + noise)
    total, steps = jax.lax.scan(lambda c, row: (c + row, jnp.tanh(c)), noise, solved[order])
    grown = jax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2 + 1, jnp.abs(total))
    return {
        "image": image,
        "large": large,
        "steps": jax.lax.cond(total[0] > 0, lambda: steps, lambda: -steps),
        "grown": jax.vmap(lambda a: jax.nn.softmax(a * grown))(x),
    }
"""

VARIED_MANIFEST = """
schema = 1
name = "varied"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "cpu-x86-64-v4"]
[entry_points.varied]
function = "varied:varied"
inputs.x = { shape = [30, 30], dtype = "float32" }
tolerance = { rtol = 1e-2, atol = 1e-3 }
[entry_points.varied.fixtures]
ranges = { x = [0, 1] }
"""


@dataclass(frozen=True)
class Place:
    """A user on a machine, as far as a process can tell.

    jobs: compilations at a time.  cores: how many a process may use; None for all.
    """

    home: str
    user: str
    zone: str
    hash_seed: str
    jobs: int
    cores: int | None

    def environment(self, folder: Path) -> dict[str, str]:
        home = folder / self.home
        home.mkdir(parents=True)
        kept = {k: v for k, v in os.environ.items() if k not in ("SOURCE_DATE_EPOCH", "PYTHONPATH")}
        return {
            **kept,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "TMPDIR": str(home),
            "USER": self.user,
            "LOGNAME": self.user,
            "HOSTNAME": f"host-of-{self.user}",
            "TZ": self.zone,
            "LC_ALL": "C.UTF-8",
            "PYTHONHASHSEED": self.hash_seed,
            # A larger environment moves the stack.
            "FILLER": self.user * 500,
            # Steers jax and XLA in other programs; a build takes no notice.
            "XLA_FLAGS": "--xla_cpu_enable_fast_math=true" if self.jobs > 1 else "",
            "JAX_ENABLE_X64": "1" if self.jobs > 1 else "0",
        }


ALICE = Place("home-of-alice", "alice", "UTC", "0", 1, None)
BARBARA = Place("users/barbara/at-home", "barbara", "Pacific/Auckland", "4711", 4, 1)


def aotc(
    *arguments: str | Path, folder: Path, environment: dict[str, str], cores: int | None = None
) -> None:
    usable = set(sorted(os.sched_getaffinity(0))[:cores])
    command = [sys.executable, "-m", "aotc.cli.main", *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, usable),
    )
    assert done.returncode == 0, done.stderr


def build(place: Place, folder: Path, sources: Path, name: str) -> None:
    """Copy the sources into a folder of the place's own and build them there."""
    environment = place.environment(folder)
    copied = folder / f"work-of-{place.user}" / "deep" / "manifests"
    shutil.copytree(sources, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for file in copied.rglob("*"):
        os.utime(file, (time.time() - 1e6 * place.jobs,) * 2)
    bundle = folder / f"{place.user}.aotb"
    aotc(
        *("build", copied / f"{name}.toml", "--cache", "off"),
        *("--output", bundle, "--jobs", str(place.jobs)),
        folder=folder,
        environment=environment,
        cores=place.cores,
    )


@pytest.fixture(scope="module")
def both(once: Once) -> Bundle:
    """The digits example and a program with library calls, control flow, LAPACK and a closed-over
    array in one bundle, unsigned, by two people in two places.
    """

    def fill(folder: Path) -> None:
        sources = folder / "sources"
        shutil.copytree(MANIFESTS / "digits", sources / "digits")
        (sources / "varied.py").write_text(VARIED)
        text = (MANIFESTS / "digits.toml").read_text()
        (sources / "both.toml").write_text(VARIED_MANIFEST + text[text.index("[weights.") :])
        build(ALICE, folder / "first", sources, "both")
        build(BARBARA, folder / "second-of-two", sources, "both")

    folder = once("reproducibility", fill)
    return folder / "first" / "alice.aotb", folder / "second-of-two" / "barbara.aotb"


def root_digest(bundle: Path) -> str:
    return read_unverified(open_bundle(bundle))[0].root_digest


def blobs(bundle: MappedBundle) -> dict[str, bytes]:
    return {digest: bytes(bundle.blob(digest) or b"") for digest in bundle.digests()}


def test_two_builds_in_different_places_are_the_same_file(both: Bundle) -> None:
    first, second = both
    manifests = [read_unverified(open_bundle(path))[0].manifests for path in both]
    assert manifests[0] == manifests[1]
    assert root_digest(first) == root_digest(second)
    assert first.read_bytes() == second.read_bytes()


def test_signing_changes_only_the_attestation(both: Bundle, tmp_path: Path) -> None:
    unsigned = both[0]
    signed = tmp_path / "signed.aotb"
    shutil.copy(unsigned, signed)
    environment = ALICE.environment(tmp_path)
    aotc("keygen", "ci", "--plain", folder=tmp_path, environment=environment)
    aotc("sign", signed, "--key", "ci.key", folder=tmp_path, environment=environment)

    before, after = open_bundle(unsigned), open_bundle(signed)
    assert root_digest(signed) == root_digest(unsigned)
    assert blobs(before).items() < blobs(after).items()
    assert (read_root(before).attestations, len(read_root(after).attestations)) == ((), 1)
    added = blobs(after).keys() - blobs(before).keys()
    (reference,) = read_root(after).attestations
    assert reference.digest in added
    assert len(added) == len({"image manifest", "envelope", "empty config"})
    assert bytes(before.file(oci_layout.LAYOUT_FILE) or b"") == bytes(
        after.file(oci_layout.LAYOUT_FILE) or b""
    )


def test_no_blob_names_a_place_or_a_person(both: Bundle) -> None:
    for path in both:
        folder = str(path.parent).encode()
        private_names = (folder, b"alice", b"barbara", b"site-packages", b"/home", b"aotc-build-")
        for digest, data in blobs(open_bundle(path)).items():
            assert [name for name in private_names if name in data] == [], digest


def test_modules_and_executables_hold_no_program_names(both: Bundle) -> None:
    bundle = open_bundle(both[0])
    for manifest in read_unverified(bundle)[0].manifests.values():
        for entry_point in manifest.entry_points.values():
            for profile in entry_point.profiles:
                artifact = bytes(bundle.blob(profile.module.digest) or b"")
                executable = bytes(bundle.blob(profile.executable.digest) or b"")
                for data in (artifact, executable):
                    found = [n for n in (b".py", b"lambda", b"jit_", b"varied") if n in data]
                    assert found == []
                module = mlir_context.read_artifact(artifact)
                with module.context:
                    text = module.operation.get_asm(enable_debug_info=True)
                located = [line for line in text.splitlines() if line.startswith("#loc")]
                assert located in ([], ["#loc = loc(unknown)"])
                assert "module @aotc" in text
