"""Exports a PyTorch module and records what it returns eagerly. Runs where torch is installed."""

from __future__ import annotations

import copy
import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

FOLDERS = re.compile(
    "|".join(
        re.escape(f"{folder}/")
        for folder in (Path(torch.__file__).parents[1], Path(__file__).resolve().parents[2])
    )
)
"""Of this machine: they are left out of the traces in a file."""


def results(value: Any, path: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a result by their path: names of fields and numbers of items, "/" between."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, tuple | list):
        items = [(str(key), item) for key, item in enumerate(value)]
    else:
        return {}
    return {
        name: tensor
        for key, item in items
        for name, tensor in results(item, f"{path}/{key}".removeprefix("/")).items()
    }


def as_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """bfloat16 as float32, since numpy's files do not have it."""
    tensor = tensor.detach().clone()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.contiguous().numpy()


def record(
    folder: Path,
    name: str,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    decomposed: bool = False,
    other: tuple[Any, ...] = (),
    gradients: bool = False,
) -> None:
    """Write NAME.pt2 and NAME.npz: inputs (`in/N`) and the module's eager results (`out/PATH`).

    dynamic: `dynamic_shapes`.  other: further positional arguments, of other sizes, recorded as
    `in1/N` and `out1/PATH`.  gradients: export with them, as without `no_grad`.
    """
    warnings.simplefilter("ignore")
    module = module.eval()
    kwargs = dict(kwargs or {})
    calls = [(args, kwargs), *(((other, {}),) if other else ())]
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with torch.no_grad():
        for number, (positional, named) in enumerate(calls):
            leaves = torch.utils._pytree.tree_leaves((positional, named))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            suffix = str(number or "")
            arrays |= {f"in{suffix}/{i:03}": as_numpy(t) for i, t in enumerate(tensors)}
            # Cloned, since a module may write into its arguments.
            given = torch.utils._pytree.tree_map(
                lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf,
                (positional, named),
            )
            found = results(module(*given[0], **given[1]))
            arrays |= {f"out{suffix}/{path}": as_numpy(t) for path, t in found.items()}
    with torch.set_grad_enabled(gradients):
        export(folder, name, module, args, kwargs, dynamic, decomposed)
    np.savez(folder / f"{name}.npz", **arrays)


def export(
    folder: Path,
    name: str,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    decomposed: bool = False,
    strict: bool = False,
) -> None:
    """Write NAME.pt2. strict: trace the module's bytecode, not its calls."""
    program = torch.export.export(
        module, args, dict(kwargs or {}), dynamic_shapes=dynamic, strict=strict
    )
    if decomposed:
        program = program.run_decompositions()
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes:
            if "stack_trace" in node.meta:
                node.meta["stack_trace"] = re.sub(FOLDERS, "", node.meta["stack_trace"])
    # Sample inputs are pickled into the file, which has no need of them.
    program.example_inputs = None
    torch.export.save(program, folder / f"{name}.pt2")


def record_steps(
    folder: Path,
    name: str,
    module: torch.nn.Module,
    calls: Sequence[tuple[torch.Tensor, ...]],
    decomposed: bool = False,
    training: bool = False,
    strict: bool = False,
) -> None:
    """Write NAME.pt2 and NAME.npz of a module that its calls change.

    Of the Nth call: the inputs (`inN/I`), the eager results (`outN/PATH`), and, as they are
    afterwards, the inputs (`afterN/I`) and what the module owns (`stateN/NAME`).
    """
    warnings.simplefilter("ignore")
    module = module.train(training)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with torch.no_grad():
        export(folder, name, copy.deepcopy(module), calls[0], decomposed=decomposed, strict=strict)
        for number, call in enumerate(calls):
            given = [tensor.clone() for tensor in call]
            arrays |= {f"in{number}/{i:03}": as_numpy(t) for i, t in enumerate(given)}
            found = results(module(*given))
            arrays |= {f"out{number}/{path}": as_numpy(t) for path, t in found.items()}
            arrays |= {f"after{number}/{i:03}": as_numpy(t) for i, t in enumerate(given)}
            owned = [*module.named_buffers(), *module.named_parameters()]
            arrays |= {f"state{number}/{key}": as_numpy(tensor) for key, tensor in owned}
    np.savez(folder / f"{name}.npz", **arrays)


def seed(name: str) -> None:
    """Random numbers of a case depend on its name alone."""
    torch.manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little"))
