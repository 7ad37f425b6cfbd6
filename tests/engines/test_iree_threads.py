"""Bundles of IREE under many threads: results, how many threads there are, forks, closing."""

import json
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.engines.iree.iree_names import DRIVERS, LOCAL_SYNC, LOCAL_TASK
from tests.conftest import Once, manifest_of
from tests.hostile.tampering import in_memory, take_apart
from tests.running import printed

PROGRAM = """
import jax.numpy as jnp

def init():
    return {"small": jnp.eye(16) * 3, "large": jnp.eye(512) * 3}

def small(params, x):
    return x @ params["small"] + 1

def large(params, x):
    return x @ params["large"] + 1
"""

MANIFEST = manifest_of("""
name = "threads"
engines = ["iree"]

[weights.params]
init = "program:init"

[entry_points.small]
function = "program:small"
bind = { params = "params" }
inputs.x = { shape = [4, 16], dtype = "float32" }

[entry_points.large]
function = "program:large"
bind = { params = "params" }
inputs.x = { shape = [512, 512], dtype = "float32" }
""")

BEGIN = """
import json, os, sys, threading, time
import numpy as np
import aotc_runtime

def workers():
    names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
    return sum(name.startswith("iree-worker") for name in names)

def loaded(threads=None):
    return aotc_runtime.load(sys.argv[1], trust=sys.argv[2], threads=threads)

SHAPES = {"small": (4, 16), "large": (512, 512)}

def given(name, number):
    return np.full(SHAPES[name], number, np.float32)

def is_right(result, number):
    return bool((result == 3 * number + 1).all())
"""

COUNTING = """
with loaded(int(sys.argv[3])) as bundle:
    for name in SHAPES:
        assert is_right(bundle[name](given(name, 2)), 2)
    print(json.dumps({"workers": workers(), "said": bundle.report()["threads"]}))
"""

FORKING = """
bundle = loaded()
pid = os.fork()
if pid == 0:
    codes = []
    calls = [lambda name=name: bundle[name](given(name, 1)) for name in SHAPES]
    for use in (*calls, loaded):
        try:
            use()
        except aotc_runtime.BackendError as error:
            codes.append(error.code)
    os._exit(0 if codes == ["AOTC-E754"] * 3 else 1)
_, status = os.waitpid(pid, 0)
print(json.dumps({"status": status, "parent": is_right(bundle["large"](given("large", 4)), 4)}))
"""

WORKERS = """
workers = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        with loaded(2) as bundle:
            os._exit(0 if is_right(bundle["large"](given("large", 1)), 1) else 1)
    workers.append(pid)
print(json.dumps([os.waitpid(pid, 0)[1] for pid in workers]))
"""

CLOSING = """
name, outcomes, called = sys.argv[3], [], threading.Event()
bundle = loaded()
call = bundle[name]
kept = call(given(name, 7))

def work(number):
    try:
        while True:
            outcomes.append(is_right(call(given(name, number)), number))
            called.set()
    except aotc_runtime.AotcError as error:
        outcomes.append(error.code)

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
called.wait(60)
bundle.close()
for thread in threads:
    thread.join(60)
again = loaded()
print(json.dumps({"outcomes": sorted({str(each) for each in outcomes}),
                  "running": sum(thread.is_alive() for thread in threads),
                  "kept": is_right(kept, 7), "again": is_right(again[name](given(name, 5)), 5)}))
"""


@pytest.fixture(scope="session")
def bundle(once: Once) -> Path:
    """A folder with the bundle and its policy: one small program, one that wants a pool."""

    def fill(folder: Path) -> None:
        (folder / "program.py").write_text(PROGRAM)
        (folder / "threads.toml").write_text(MANIFEST)
        signer = LocalSigner.ephemeral()
        (folder / "trust.toml").write_text(policy_text("threads", [signer.public_pem()]))
        build(folder / "threads.toml", folder / "threads.aotb", BuildOptions(signer=signer))

    return once("iree-threads", fill)


def said(bundle: Path, program: str, *arguments: object) -> Any:
    """Return what a process of its own prints."""
    places = [bundle / "threads.aotb", bundle / "trust.toml"]
    return json.loads(printed(BEGIN + program, *places, *arguments))


def test_the_build_gives_each_program_the_driver_that_suits_it(bundle: Path) -> None:
    documents = take_apart(in_memory(bundle / "threads.aotb"))
    drivers = {
        name: {
            driver
            for profile in entry_point["profiles"]
            for driver in DRIVERS
            if driver.encode() in documents.layers[profile["executable"]["digest"]]
        }
        for name, entry_point in documents.manifest["entry_points"].items()
    }
    assert drivers == {"small": {LOCAL_SYNC}, "large": {LOCAL_TASK}}


@pytest.mark.parametrize(("threads", "pool"), [(1, 0), (2, 2), (5, 5)])
def test_there_are_as_many_threads_as_were_asked_for(bundle: Path, threads: int, pool: int) -> None:
    """A pool of so many; for one, none at all."""
    assert said(bundle, COUNTING, threads) == {"said": threads, "workers": pool}


def test_a_fork_of_the_process_is_refused_and_the_parent_goes_on(bundle: Path) -> None:
    assert said(bundle, FORKING) == {"status": 0, "parent": True}


def test_workers_that_load_after_the_fork_have_pools_of_their_own(bundle: Path) -> None:
    assert said(bundle, WORKERS) == [0, 0, 0]


@pytest.mark.parametrize("name", ["small", "large"])
def test_closing_ends_running_calls_with_result_or_error(bundle: Path, name: str) -> None:
    answer = said(bundle, CLOSING, name)
    assert answer["outcomes"] == ["AOTC-E633", "True"]
    assert (answer["running"], answer["kept"], answer["again"]) == (0, True, True)
