"""Records what torch's operators return: for arguments that torch's own tests use, and for our own.

`python -m scripts.models.torch_operators FOLDER NAMES` reads names of operators
("aten.add.Tensor"), one in a line, from the file NAMES, and writes FOLDER/operators.json (arguments
and results of each call) and FOLDER/operators.npz (their tensors).
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

from scripts.models.torch_edge_calls import edge_calls, quantized_calls, traced_calls

CALLS_MAX = 14
"""Calls of one operator; ELEMENTS_MAX: elements of the largest tensor in one."""
ELEMENTS_MAX = 4096
SAMPLES_MAX = {torch.float32: 12}
"""Of torch's samples for an operator; of other dtypes 3."""
LEFT_OUT = (
    *("masked", "sparse", "signal", "jiterator", "torch", "geqrf", "ormqr", "pca", "multinomial"),
    *("to_sparse", "nn.functional.ctc_loss", "nn.functional.multi"),
)
"""Beginnings of names of what no model of the frontend has."""
DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.uint8)
NAMESPACES = ("aten", "quantized_decomposed", "torchao")
_SCALAR_TYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16),
    *(torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128),
    *(torch.bool, torch.bfloat16),
)
NUMBERS = {dtype: number for number, dtype in enumerate(_SCALAR_TYPES, 1)}


class TooLarge(Exception):
    pass


class Records:
    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.calls: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray[Any, Any]] = {}
        self.counts: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.by_value = False
        """Whether calls with the same dtypes and ranks are kept if their values differ."""

    def encoded(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if (
                value.numel() > ELEMENTS_MAX
                or value.dtype not in NUMBERS
                or value.layout != torch.strided
            ):
                raise TooLarge
            wide = value.float() if value.dtype == torch.bfloat16 else value
            array = wide.detach().resolve_conj().resolve_neg().cpu().contiguous().numpy()
            name = f"{len(self.tensors):05}"
            self.tensors[name] = array.copy()
            return {"tensor": name, "dtype": NUMBERS[value.dtype]}
        if isinstance(value, list | tuple):
            return [self.encoded(item) for item in value]
        if isinstance(value, torch.dtype):
            return {"scalar_type": NUMBERS[value]}
        if isinstance(value, bool | int | str) or value is None:
            return value
        if isinstance(value, float):
            return {"float": repr(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, torch.device | torch.layout | torch.memory_format):
            return None
        raise TooLarge

    def call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and write down what it was given and what it returned."""
        name = f"{op._schema.name.replace('::', '.')}.{op._overloadname}"
        if name not in self.names:
            return op(*args, **kwargs)
        parameters = op._schema.arguments
        given = {p.name: a for p, a in zip(parameters, args, strict=False)} | kwargs
        before = dict(self.tensors)
        try:
            encoded = {key: self.encoded(value) for key, value in given.items()}
            result = op(*args, **kwargs)
            made = {"op": name, "args": encoded, "out": self.encoded(result)}
        except TooLarge:
            self.tensors = before
            return op(*args, **kwargs)
        except Exception:
            self.tensors = before
            raise
        kind = json.dumps([name, [self._kind(value) for value in given.values()]])
        if self.counts[name] >= CALLS_MAX or kind in self.seen:
            self.tensors = before
            return result
        self.seen.add(kind)
        self.counts[name] += 1
        self.calls.append(made)
        return result

    def _kind(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            known = [str(value.dtype), value.ndim, 0 in value.shape]
            return [*known, repr(value.tolist())] if self.by_value else known
        if isinstance(value, list | tuple):
            return [self._kind(item) for item in value]
        return repr(value)


class Recorder(torch.fx.Interpreter):
    """Runs a traced graph, its operators through `Records`."""

    def __init__(self, module: Any, records: Records) -> None:
        super().__init__(module)
        self.records = records

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.OpOverload):
            return self.records.call(target, args, dict(kwargs))
        return super().call_function(target, args, kwargs)


def traced(call: Callable[[], Any], records: Records) -> None:
    """Run a call operator by operator, as in programs without decompositions and as core ATen."""
    for whole in (True, False):
        Recorder(make_fx(lambda: call(), pre_dispatch=whole)(), records).run()


def samples(records: Records) -> None:
    """Torch's own samples, each traced, so that the operators are those of exported programs."""
    for info in op_db:
        if info.name.startswith(LEFT_OUT):
            continue
        for dtype in DTYPES:
            if dtype not in info.dtypes:
                continue
            try:
                given = list(
                    itertools.islice(info.sample_inputs("cpu", dtype), SAMPLES_MAX.get(dtype, 3))
                )
            except Exception:  # noqa: BLE001  needs a library or a processor that is not here
                continue
            for sample in given:
                run = functools.partial(info.op, sample.input, *sample.args, **sample.kwargs)
                try:
                    random.seed(0)
                    traced(run, records)
                except Exception:  # noqa: BLE001  cannot be traced
                    continue


def schemas(names: set[str]) -> dict[str, Any]:
    """Of each operator: names of its arguments, and whether its result may share memory."""
    found: dict[str, Any] = {}
    for name in sorted(names):
        namespace, _, rest = name.partition(".")
        packet, _, overload = rest.partition(".")
        if namespace not in NAMESPACES:
            continue
        op = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
        if op is None:
            found[name] = None
            continue
        schema = op._schema
        found[name] = {
            "arguments": [argument.name for argument in schema.arguments],
            "view": any(result.alias_info is not None for result in schema.returns),
        }
    return found


def main(folder: Path, names: Path) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    records = Records(set(names.read_text(encoding="utf-8").split()))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schemas.json").write_text(json.dumps(schemas(records.names)), encoding="utf-8")
    with torch.no_grad():
        records.by_value = True
        for op, args, kwargs in traced_calls():
            records.counts = Counter()
            try:
                traced(functools.partial(op, *args, **kwargs), records)
            except RuntimeError as error:
                print("torch refuses:", str(error).splitlines()[0])
        refused: Counter[str] = Counter()
        for op, args, kwargs in itertools.chain(edge_calls(), quantized_calls()):
            records.counts = Counter()
            try:
                records.call(op, args, kwargs)
            except (RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
                refused[str(op)] += 1
        print("torch refuses calls of torch_edge_calls:", dict(refused))
        records.by_value, records.counts = False, Counter()
        samples(records)
    (folder / "operators.json").write_text(json.dumps(records.calls), encoding="utf-8")
    np.savez_compressed(folder / "operators.npz", **records.tensors)
    missing = sorted(records.names - {made["op"] for made in records.calls})
    print(f"{len(records.calls)} calls of {len({c['op'] for c in records.calls})} operators")
    print("not called:", *missing)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
