"""Runs a model file with its framework on each call in a folder: `python recorder.py FOLDER`.

Calls are `0.npz`, `1.npz` and so on; the results are written beside them as `0.results.npz`, with
their names in `0.names.json`. This runs in environments without aotc, on Python 3.10 or newer: it
imports only the framework and numpy. Errors go to `refused.json`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np

Arrays = Mapping[str, Any]
Run = Callable[[Arrays], Arrays]


class Refused(Exception):
    """The reason why a file is not run."""


def main(folder: Path) -> None:
    """Do the job of a folder."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    try:
        framework, run = OPENED[Path(job["model"]).suffix](job["model"])
        for number in range(job["calls"]):
            with np.load(folder / f"{number}.npz", allow_pickle=False) as given:
                found = run(dict(given))
            for name, array in found.items():
                if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                    raise Refused(f"the result {name} is no array of numbers")
            # Not by name: a result may be called as a parameter of numpy is.
            np.savez(folder / f"{number}.results.npz", *found.values())
            names = json.dumps([*found])
            (folder / f"{number}.names.json").write_text(names, encoding="utf-8")
        (folder / "framework").write_text(framework, encoding="utf-8")
    except Refused as error:
        (folder / "refused.json").write_text(json.dumps(list(error.args)), encoding="utf-8")


def _onnx(path: str) -> tuple[str, Run]:
    """Return the graph, run by ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kinds = {each.name: each.type for each in session.get_inputs()}
    results = [each.name for each in session.get_outputs()]
    labels = _class_labels(path)

    def run(given: Arrays) -> Arrays:
        fed = {}
        for name, array in _by_file_names(kinds, given).items():
            wide = {"tensor(int64)": np.int64, "tensor(double)": np.float64}.get(kinds[name])
            fed[name] = array if wide is None else array.astype(wide)
        found = dict(zip(results, session.run(results, fed), strict=True))
        return {name: _columns(each, labels.get(name)) for name, each in found.items()}

    return f"onnxruntime {onnxruntime.__version__}", run


def _class_labels(path: str) -> dict[str, list[int]]:
    """Return the class labels of each ZipMap in the file's order; ONNX Runtime sorts them."""
    with suppress(ImportError):
        import onnx

        nodes = onnx.load(path, load_external_data=False).graph.node
        return {n.output[0]: [*n.attribute[0].ints] for n in nodes if n.op_type == "ZipMap"}
    return {}


def _columns(found: Any, labels: list[int] | None) -> Any:
    """Return the array below a ZipMap, which aotc removes; other results as they are."""
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        return found
    return np.array([[row[key] for key in labels or row] for row in found], np.float32)


def _by_file_names(kinds: Mapping[str, Any], given: Arrays) -> Arrays:
    """Return arrays by the file's names, which manifests spell with `_` as Python requires."""
    found = {}
    for name in kinds:
        for each in (name, re.sub(r"\W", "_", name)):
            if each in given:
                found[name] = given[each]
                break
        else:
            raise Refused(f"no array for the input {name}, but {', '.join(sorted(given))}")
    return found


def _torch(path: str) -> tuple[str, Run]:
    """Return the exported program, operator by operator in PyTorch."""
    import torch
    from torch.export.graph_signature import ConstantArgument, InputKind
    from torch.utils import _pytree as pytree

    with suppress(ImportError):
        import transformers  # noqa: F401 - registers the classes of its results
    _register_named_tuples(path, pytree)
    program = torch.export.load(path)
    signature = program.graph_signature
    _refuse_changes({**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}.values())
    module = program.module()
    versions = {name: buffer._version for name, buffer in module.named_buffers()}
    values = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    user = [each.arg for each in signature.input_specs if each.kind == InputKind.USER_INPUT]
    paths = _input_paths(program, pytree, len(user))

    def tensor(name: str, path: str, given: Arrays) -> Any:
        if not {name, path} & given.keys():
            raise Refused(f"no array for the input {path}, but {', '.join(sorted(given))}")
        array, dtype = np.array(given[name if name in given else path]), values[name].dtype
        if array.dtype.kind == "V":  # two bytes of bfloat16, which numpy does not know
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array).to(dtype)

    def run(given: Arrays) -> Arrays:
        flat = [
            each.value if isinstance(each, ConstantArgument) else tensor(each.name, path, given)
            for each, path in zip(user, paths, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(flat, program.call_spec.in_spec)
        with torch.no_grad():
            returned = module(*args, **kwargs)
        buffers = module.named_buffers()
        _refuse_changes([name for name, each in buffers if each._version != versions[name]])
        leaves, _ = pytree.tree_flatten_with_path(returned)
        return {
            "/".join(map(_step, where)) or "result": _array(each)
            for where, each in leaves
            if each is not None
        }

    return f"torch {torch.__version__}", run


def _refuse_changes(names: Iterable[str]) -> None:
    if listed := ", ".join(sorted(names)):
        raise Refused(f"state that calls change: {listed}; `model.eval()` ends that of training")


def _input_paths(program: Any, pytree: Any, count: int) -> list[str]:
    """Return the paths of inputs below the names of arguments, such as "past/0/1"."""
    named = getattr(program.module_call_graph[0].signature, "forward_arg_names", None) or []
    called = pytree.tree_unflatten([*range(count)], program.call_spec.in_spec)
    leaves, _ = pytree.tree_flatten_with_path(called)
    steps = [[_step(key) for key in where] for where, _ in leaves]
    return [
        "/".join([named[int(first)] if kind == "0" and named else first, *below])
        for kind, first, *below in steps
    ]


def _register_named_tuples(path: str, pytree: Any) -> None:
    """Make named tuples as the file has them, since their classes are in the author's program."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/models/model.json")]
        models = [json.loads(archive.read(name))["graph_module"] for name in names]
    for name, known in (models[0].get("treespec_namedtuple_fields", {}) if models else {}).items():
        if name not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
            kind = name.rpartition(".")[2]
            made = namedtuple(kind, known["field_names"])  # type: ignore[misc]  # named at run time
            pytree._register_namedtuple(made, serialized_type_name=name)
            globals().setdefault(made.__name__, made)  # where example inputs look for it


def _step(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    raise Refused(f"a result in a structure without names: {key}")


def _array(tensor: Any) -> Any:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise Refused(f"a result that is no tensor but {type(tensor).__name__}")
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view("V2")
    return tensor.contiguous().numpy()


OPENED: Mapping[str, Callable[[str], tuple[str, Run]]] = {".onnx": _onnx, ".pt2": _torch}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
