"""Model files of an abacus: JSON with a kernel and a bias."""

import json

import jax
import numpy as np

from aotc.base.errors import refusal
from aotc.capture.model_files.frontend_protocol import Array, Model, ModelFile, ModelInput


class BeadsFrontend:
    """Reads `.beads` files: `{"kernel": [[...]], "bias": [...]}`."""

    def read(self, file: ModelFile) -> Model:
        """Return the function `image @ kernel + bias`. Raises CaptureError (AOTC-E843)."""
        try:
            content = json.loads(file.data)
            weights = {name: np.array(content[name], np.float32) for name in ("bias", "kernel")}
        except (ValueError, KeyError, TypeError) as error:
            raise refusal("AOTC-E843", file.text, str(error), expected="beads") from error
        image = ModelInput("image", np.dtype("float32"), ("batch", weights["kernel"].shape[0]))
        return Model(_function, (image,), weights, {"batch": (1, None)}, {"abacus": "1.0"})


def _function(weights: dict[str, Array], image: jax.Array) -> jax.Array:
    return image @ weights["kernel"] + weights["bias"]
