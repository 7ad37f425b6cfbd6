"""Models that their calls change, call after call against what torch recorded."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aotc.capture.model_files.frontend_protocol import Model
from tests.frontends.pytorch.recorded import apart, named


def initial(model: Model) -> dict[str, Any]:
    return {
        each.name.removeprefix("state/"): jnp.asarray(each.initial)
        for each in model.inputs
        if each.initial is not None
    }


def follow(model: Model, recording: Path) -> float:
    """Return the largest difference from torch of calls that each take the state of the one before.

    Results, states and inputs that are written count.
    """
    recorded = np.load(recording)
    owned = initial(model)
    call = jax.jit(model.function)
    far = 0.0
    for step in range(len({key.partition("/")[0] for key in recorded if key.startswith("in")})):
        keys = sorted(key for key in recorded if key.startswith(f"in{step}/"))
        taken = [spec for spec in model.inputs if spec.initial is None]
        given = [
            jnp.asarray(recorded[key]).astype(jax.dtypes.canonicalize_dtype(spec.dtype))
            for key, spec in zip(keys, taken, strict=True)
        ]
        made = call(dict(model.weights), *given, *owned.values())
        wanted = part(recorded, f"out{step}/")
        found = {f"result/{key}": value for key, value in named(made["result"]).items()}
        assert found.keys() == {f"result/{key}" for key in wanted}
        pairs = [(found[f"result/{key}"], value) for key, value in wanted.items()]
        state = made.get("state", {})
        assert state.keys() == owned.keys()
        after = part(recorded, f"state{step}/")
        # Tensors that are no buffers have names of the export's own; results depend on them.
        pairs += [(value, after[key]) for key, value in state.items() if key in after]
        untouched = after.keys() - owned.keys()
        for key in untouched & model.weights.keys():
            assert np.array_equal(model.weights[key], after[key]), "what changes is a state"
        inputs = part(recorded, f"after{step}/")
        for number, spec in enumerate(taken):
            before, now = recorded[keys[number]], inputs[f"{number:03}"]
            assert spec.changes or np.array_equal(before, now)
            if spec.changes:
                pairs.append((made["inputs"][spec.name], now))
        far = max(far, *(apart(np.asarray(one), other) for one, other in pairs))
        owned = {key: state[key] for key in owned}
    return far


def part(recorded: Any, start: str) -> dict[str, Any]:
    return {key.removeprefix(start): recorded[key] for key in recorded if key.startswith(start)}
