"""pgx: a game's state, stepped by actions."""

from __future__ import annotations

import jax
import numpy as np
import pgx

MANIFESTS = {
    "game": """
        [entry_points.play]
        function = "with_pgx:play"
        inputs.state = { like = "with_pgx:start" }
        inputs.action = { shape = [], dtype = "int32" }
        fixtures.ranges = { action = [0, 6] }
    """,
}

STATES = {"play": {"state": None}}
GAME = pgx.make("connect_four")


def start():
    return GAME.init(jax.random.PRNGKey(0))


def play(state, action):
    return GAME.step(state, action)


def fresh_play(rng):
    return {"state": start(), "action": np.int32(rng.integers(0, 7))}
