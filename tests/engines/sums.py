"""A small program with everything that an engine has to do, built and served by any of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import Built
from aotc_runtime.base.errors import Finding
from tests.e2e.small_programs import build_trusted
from tests.hostile import tampering
from tests.refusals import error_of
from tests.running import printed, python

PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax

def init():
    return {"bias": jnp.arange(3.0), "kernel": jnp.arange(12.0).reshape(4, 3) / 7}

def predict(params, image):
    return {"scores": image @ params["kernel"] + params["bias"], "row": jnp.argmax(image, axis=1)}

def step(state, token):
    return state.at[token].add(1.0), state.sum() + token

def factorized(matrix):
    return jnp.linalg.cholesky(matrix @ matrix.T + jnp.eye(3))
"""

MANIFEST = """
schema = 1
name = "sums"
version = "1.0.0"
targets = [TARGETS]
engines = [ENGINES]

[weights.params]
init = "program:init"

[dimensions.batch]
range = [1, 8]
profiles = [1, 4]

[entry_points.predict]
function = "program:predict"
bind = { params = "params" }
inputs.image = { shape = ["batch", 4], dtype = "float32" }
out_of_profile.batch = "pad"

[entry_points.step]
function = "program:step"
donate = ["state"]
inputs.state = { shape = [5], dtype = "float32" }
inputs.token = { shape = [], dtype = "int32" }
fixtures.ranges = { token = [0, 4] }
"""

FACTORIZED = """
[entry_points.factorized]
function = "program:factorized"
inputs.matrix = { shape = [3, 3], dtype = "float32" }
"""

SERVER = """
import json, sys
import numpy as np
import aotc_runtime

bundle, policy, threads = sys.argv[1:]
image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
with aotc_runtime.load(bundle, trust=policy, threads=int(threads) or None) as loaded:
    predict = loaded["predict"]
    print(json.dumps({
        "scores": predict(image)["scores"].tolist(),
        "padded": predict(image[:2])["scores"].tolist(),
        "report": loaded.report(),
        "modules": sorted(sys.modules),
    }))
"""

HIDING = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "PACKAGE":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""

WITHOUT_PACKAGE = f"""{HIDING}
import runpy
runpy.run_module("aotc_runtime", run_name="__main__", alter_sys=True)
"""

WITHOUT_JAXLIB = HIDING.replace("PACKAGE", "jaxlib") + SERVER

KERNEL = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
IMAGE = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
SCORES = IMAGE @ KERNEL + np.arange(3, dtype=np.float32)


def write(folder: Path, engines: str, targets: str = '"cpu-x86-64-v3"') -> Path:
    """The program and its manifest in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.py").write_text(PROGRAM)
    text = MANIFEST.replace("TARGETS", targets).replace("ENGINES", engines)
    (folder / "sums.toml").write_text(text)
    return folder / "sums.toml"


def make(folder: Path, manifest: Path) -> Built:
    """sums.aotb with trust.toml in a folder."""
    return build_trusted(manifest, folder / "sums.aotb")


def served(sums: Path, threads: int, program: str = SERVER) -> dict[str, Any]:
    return json.loads(printed(program, sums / "sums.aotb", sums / "trust.toml", threads))


def manifests(path: Path) -> dict[str, dict[str, Any]]:
    documents = tampering.take_apart(tampering.in_memory(path))
    return {each.manifest["target"]["name"]: each.manifest for each in documents.targets}


def executable(manifest: dict[str, Any]) -> str:
    """The digest of the first executable."""
    return manifest["entry_points"]["predict"]["profiles"][0]["executable"]["digest"]


type Change = Callable[[tampering.Documents], object]


def changed(bundle: Path, folder: Path, change: Change) -> tuple[Path, Path]:
    """A bundle with its documents changed and signed anew, and a policy that trusts it."""
    signer = LocalSigner.ephemeral()
    documents = tampering.take_apart(tampering.in_memory(bundle))
    change(documents)
    policy = folder / "changed.toml"
    policy.write_text(policy_text("sums", [signer.public_pem()]))
    return tampering.write_folder(folder / "changed", tampering.signed(documents, signer)), policy


def with_code(change: Callable[[bytes], bytes]) -> Change:
    """A change of the first executable."""

    def swap(documents: tampering.Documents) -> None:
        digest = executable(documents.manifest)
        tampering.swap_layer(documents, digest, change(documents.layers[digest]))

    return swap


def refused_at_load(bundle: Path, folder: Path, change: Change) -> Finding:
    """The finding for which a bundle is refused that is trusted and may run here."""
    path, policy = changed(bundle, folder, change)
    return error_of(aotc_runtime.AotcError, aotc_runtime.load, path, trust=policy).findings[0]


def refused_by_a_server(bundle: Path, folder: Path, change: Change) -> str:
    """Return what a server says that refuses an executable, and lives to tell."""
    done = python("-c", SERVER, *changed(bundle, folder, change), 0)
    assert done.returncode > 0
    assert "AOTC-E753" in done.stderr, done.stderr
    return done.stderr
