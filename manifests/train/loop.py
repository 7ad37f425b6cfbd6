"""The loop around the compiled functions: jitted by JAX, or taken from a loaded bundle.

`python -m train.loop` trains with plain JAX and prints the metrics of each epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from digits.data import Examples, load_split

BATCH_SIZE = 64
EPOCHS = 12

type Array = np.ndarray[Any, Any]
type Batch = dict[str, Array]


class Functions(NamedTuple):
    """The entry points of `train.model`, however they were compiled.

    init: seed (uint32[]) to state.  train_step: (state, batch) to (state, metrics); may consume the
    state it is given.  evaluate: (state, batch) to metrics.
    """

    init: Callable[[Array], Any]
    train_step: Callable[[Any, Batch], tuple[Any, Any]]
    evaluate: Callable[[Any, Batch], Any]


class Run(NamedTuple):
    """state: after the last step.  losses: float32[epochs], mean training loss of each epoch.
    accuracies: float32[epochs], accuracy on the held-out images after each epoch.
    """

    state: Any
    losses: Array
    accuracies: Array


def batches(examples: Examples, order: Array) -> Iterator[Batch]:
    """Yield whole batches of BATCH_SIZE examples in this order, without the remainder."""
    steps = len(order) // BATCH_SIZE
    for indices in order[: steps * BATCH_SIZE].reshape(steps, BATCH_SIZE):
        yield {"image": examples.image[indices], "label": examples.label[indices]}


def train(functions: Functions, *, seed: int = 0, epochs: int = EPOCHS) -> Run:
    """Train on the digits; `seed` decides the parameters and the order of batches."""
    examples, held_out = load_split()
    test = {"image": held_out.image, "label": held_out.label}
    shuffle = np.random.default_rng(seed)
    state = functions.init(np.asarray(seed, np.uint32))
    losses: list[float] = []
    accuracies: list[float] = []
    for _ in range(epochs):
        epoch_losses: list[float] = []
        for batch in batches(examples, shuffle.permutation(len(examples.label))):
            state, metrics = functions.train_step(state, batch)
            epoch_losses.append(float(np.asarray(metrics["loss"])))
        losses.append(float(np.mean(epoch_losses)))
        accuracies.append(float(np.asarray(functions.evaluate(state, test)["accuracy"])))
    return Run(state, np.asarray(losses, np.float32), np.asarray(accuracies, np.float32))


def plain_jax() -> Functions:
    """Return the functions as JAX compiles them in this process."""
    # Imported here because the loop also drives a loaded bundle, in a process without jax.
    import jax

    from train.model import evaluate, init, train_step

    return Functions(
        init=jax.jit(init),
        train_step=jax.jit(train_step, donate_argnames="state"),
        evaluate=jax.jit(evaluate),
    )


if __name__ == "__main__":
    run = train(plain_jax())
    for epoch, (loss, accuracy) in enumerate(zip(run.losses, run.accuracies, strict=True), 1):
        print(f"epoch {epoch:2}  loss {loss:.4f}  held-out accuracy {accuracy:.4f}")
