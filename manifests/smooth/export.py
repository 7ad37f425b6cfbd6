"""Writes smooth.jax, a function that `jax.export` has serialized for any batch, and inputs for it.

python manifests/smooth/export.py    # with jax and flatbuffers
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

HERE = Path(__file__).parent


def smooth(signal: jax.Array) -> dict[str, jax.Array]:
    """Return a moving average and its remainder of float32[batch, 32]."""
    taps = jnp.hanning(7) / jnp.hanning(7).sum()
    found = jax.vmap(lambda row: jnp.convolve(row, taps, mode="same"))(signal)
    return {"smooth": found, "rest": signal - found}


def by_hand(signal: np.ndarray) -> dict[str, np.ndarray]:
    """Compute the same in numpy and float64, without jax."""
    taps = np.hanning(7) / np.hanning(7).sum()
    found = np.stack([np.convolve(row, taps, mode="same") for row in signal.astype(np.float64)])
    return {"smooth": found, "rest": signal - found}


def main() -> None:
    """Write the function, inputs, and numpy's results in both sizes."""
    # Of the files that it names for each operation, their last part: the rest differs by machine.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    (batch,) = export.symbolic_shape("batch", constraints=["batch <= 64"])
    made = export.export(jax.jit(smooth))(jax.ShapeDtypeStruct((batch, 32), jnp.float32))
    (HERE / "smooth.jax").write_bytes(made.serialize())
    signal = np.random.default_rng(0).normal(size=(8, 32)).astype(np.float32)
    np.savez_compressed(HERE / "inputs.npz", arg0=signal)
    found: dict[str, Any] = {
        f"{name}[batch={n}]": value.astype(np.float32)
        for n in (1, 8)
        for name, value in by_hand(signal[:n]).items()
    }
    np.savez_compressed(HERE / "expected.npz", **found)


if __name__ == "__main__":
    main()
