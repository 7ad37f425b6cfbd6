"""e3nn-jax: an energy that is the same for every rotation, its forces, and spherical harmonics."""

from __future__ import annotations

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp
import numpy as np

MANIFESTS = {
    "molecule": """
        [weights.weights]
        init = "with_e3nn:weights"

        [entry_points.forces]
        function = "with_e3nn:forces"
        bind = { weights = "weights" }
        inputs.positions = { shape = [5, 3], dtype = "float32" }

        [entry_points.harmonics]
        function = "with_e3nn:harmonics"
        inputs.vectors = { shape = [7, 3], dtype = "float32" }
    """
}


def weights():
    one, two = jax.random.split(jax.random.key(0))
    return {"mix": jax.random.normal(one, (8, 4)), "out": jax.random.normal(two, (4,))}


def energy(weights, positions):
    vectors = positions[:, None] - positions[None]
    away = ~jnp.eye(positions.shape[0], dtype=bool)
    vectors = jnp.where(away[..., None], vectors, 1.0)
    lengths = jnp.linalg.norm(vectors, axis=-1)
    radial = e3nn.soft_one_hot_linspace(
        lengths, start=0.0, end=4.0, number=8, basis="gaussian", cutoff=False
    )
    harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", vectors, normalize=True)
    messages = e3nn.IrrepsArray(
        harmonics.irreps, harmonics.array * jnp.where(away, radial.mean(-1), 0)[..., None]
    )
    square = e3nn.tensor_square(e3nn.sum(messages, axis=1)).filter("0e").array
    hidden = jnp.tanh((radial * away[..., None]).sum(1) @ weights["mix"])
    return jnp.sum(hidden @ weights["out"]) + jnp.sum(jnp.sin(square))


def forces(weights, positions):
    value, gradient = jax.value_and_grad(energy, argnums=1)(weights, positions)
    return {"energy": value, "forces": -gradient}


def fresh_forces(rng):
    return {"positions": rng.normal(0, 1.5, (5, 3)).astype(np.float32)}


def harmonics(vectors):
    """An `IrrepsArray`, whose irreps are no array."""
    return e3nn.spherical_harmonics("1o + 3o", vectors, normalize=True)


def fresh_harmonics(rng):
    return {"vectors": rng.normal(size=(7, 3)).astype(np.float32)}
