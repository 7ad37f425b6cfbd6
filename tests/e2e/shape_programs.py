"""Programs whose calls leave the profiles, and bundles rewritten to say more than was built."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from hostile.archives import on_disk
from hostile.tampering import Documents, in_memory, signed, take_apart
from jax import export

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from tests.conftest import manifest_of

PROGRAM = """\
import jax
import jax.numpy as jnp


def rows(x, y):
    return {"sum": x + y, "total": x.sum(axis=1)}


def encode(tokens, mask, length):
    scores = jnp.where(mask, jnp.sin(tokens.astype(jnp.float32)), -jnp.inf)
    weights = jnp.where(mask, jax.nn.softmax(scores, axis=1), 0)
    return weights, (weights * tokens).sum(axis=1) / length


def step(state, x):
    return {"count": state["count"] + 1, "rows": state["rows"] + x}, x * 2


def leaky(x):
    return x - x.mean(axis=0)
"""

ROWS = """\
inputs.x = { shape = ["batch", 4], dtype = "float32" }
inputs.y = { shape = ["batch", 4], dtype = "float32" }
"""

MANIFEST = manifest_of(f"""\
name = "shapes"

[dimensions.batch]
range = [1, 100]
profiles = [2, 8]

[dimensions.seq]
range = [2, 64]
multiple_of = 2
profiles = [8, 16]

[entry_points.padded]
function = "program:rows"
{ROWS}
out_of_profile.batch = {{ policy = "pad", fill = {{ x = nan }} }}

[entry_points.split]
function = "program:rows"
{ROWS}
out_of_profile.batch = "split"

[entry_points.encode]
function = "program:encode"
relations = ["batch*seq <= 500"]
inputs.tokens = {{ shape = ["batch", "seq"], dtype = "int32" }}
inputs.mask = {{ shape = ["batch", "seq"], dtype = "bool" }}
inputs.length = {{ shape = [], dtype = "int32" }}
[entry_points.encode.out_of_profile]
batch = "split"
seq = {{ policy = "pad", fill = {{ tokens = 1 }}, mask = "mask", length = "length" }}
[entry_points.encode.fixtures]
ranges = {{ tokens = [0, 255] }}

[entry_points.step]
function = "program:step"
inputs.state.count = {{ shape = [], dtype = "int32" }}
inputs.state.rows = {{ shape = ["batch", 4], dtype = "float32" }}
inputs.x = {{ shape = ["batch", 4], dtype = "float32" }}
donate = ["state"]
out_of_profile.batch = "pad"
[entry_points.step.fixtures]
ranges = {{ "state/count" = [0, 9] }}

[entry_points.leaky]
function = "program:leaky"
inputs.x = {{ shape = ["batch", 4], dtype = "float32" }}

[entry_points.later]
function = "program:rows"
{ROWS}
""")


def rewritten(
    bundle: Path, folder: Path, change: Callable[[Documents], object], **policy: str
) -> tuple[Path, Path]:
    """The bundle with its documents changed, signed anew, and a policy that trusts that."""
    folder.mkdir(exist_ok=True)
    documents = take_apart(in_memory(bundle))
    change(documents)
    signer = LocalSigner.ephemeral()
    path = on_disk(signed(documents, signer), "archive", folder)
    trust = folder / "trust.toml"
    rules = "".join(f'{key} = "{value}"\n' for key, value in policy.items())
    text = policy_text("shapes", [signer.public_pem()])
    trust.write_text(text.replace("\n[[keys]]", f"\n{rules}\n[[keys]]", 1))
    return path, trust


def rows(x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
    return {"sum": x + y, "total": x.sum(axis=1)}


def compiling(
    name: str, program: Callable[..., Any] = rows, **policy: Any
) -> Callable[[Documents], None]:
    """An entry point `rows` that compiles, with a module of a program that jax exports here."""

    def change(documents: Documents) -> None:
        (batch,) = export.symbolic_shape("batch")
        spec = jax.ShapeDtypeStruct((batch, 4), np.float32)
        function = jax.jit(program)
        data = export.export(function, platforms=["cpu"])(spec, spec).mlir_module_serialized
        add_symbolic(documents, name, bytes(data))
        documents.manifest["entry_points"][name]["out_of_profile"] = {
            "batch": {"policy": "compile", "most": 2, "seconds": 60, **policy}
        }

    return change


def add_symbolic(documents: Documents, name: str, data: bytes) -> None:
    """A module of two inputs, in order."""
    ref = {"digest": "sha256:" + hashlib.sha256(data).hexdigest(), "size": len(data)}
    arguments = [{"from": "input", "leaf": leaf, "aliased": False} for leaf in (0, 1)]
    documents.manifest["entry_points"][name]["symbolic"] = {"module": ref, "arguments": arguments}
    layer = {"mediaType": "application/vnd.aotc.module.v1+stablehlo", **ref}
    documents.image["layers"] = sorted(
        [*documents.image["layers"], layer], key=lambda each: each["digest"]
    )
    documents.layers[ref["digest"]] = data
