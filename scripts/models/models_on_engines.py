"""Builds models that other suites recorded for every engine, as a table of what became of each.

`python -m scripts.models.models_on_engines OUT FOLDER…`, where aotc and its engines are: of each
NAME.pt2, .onnx or .keras in the folders it builds one bundle for each engine, with the recorded
inputs of its NAME.npz as the fixture. A build compares the executable with plain JAX at these and
at its trials (other numbers, NaN, infinities, ends of ranges), and loads it. OUT/results.jsonl gets
a line for each build, and is not asked again for what it has; OUT/table.md is the table.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc.capture.model_files.frontend_registry import read_model
from aotc.pipeline.build import build
from aotc_runtime.base.errors import AotcError

ENGINES = ("xla", "onnxruntime", "openvino", "iree")

MANIFEST = """
schema = 1
name = "model"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
engines = ["{engine}"]
[entry_points.run]
source = "{source}"
tolerance = {{ rtol = 1e-4, atol = 1e-5 }}
fixtures.file = "fixture.npz"
{inputs}
"""


def recorded_inputs(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the first recorded call of a model by the names of its inputs, int64 as int32."""
    held = np.load(path.with_suffix(".npz"))
    model = read_model(
        ModelFile(path.name, path.read_bytes(), None, lambda _: b"", False), path.name
    )
    names = [each.name for each in model.inputs if each.initial is None]
    keys = sorted(key for key in held if re.match(r"in/|input\d", key))
    keys = keys or [name if name in held else held.files[0] for name in names]
    arrays = [held[key] for key in keys[: len(names)]]
    return {
        name: array.astype(np.int32) if array.dtype == np.int64 else array
        for name, array in zip(names, arrays, strict=True)
    }


def verdict(path: Path, engine: str, folder: Path) -> str:
    """Build a model for one engine and return `ok`, or the codes of its refusal."""
    given = recorded_inputs(path)
    (folder / path.name).write_bytes(path.read_bytes())
    np.savez(folder / "fixture.npz", **given)
    inputs = "\n".join(
        f'inputs.{name} = {{ shape = {list(each.shape)}, dtype = "{each.dtype}" }}'
        for name, each in given.items()
    )
    text = MANIFEST.format(engine=engine, source=path.name, inputs=inputs)
    (folder / "model.toml").write_text(text, encoding="utf-8")
    try:
        build(folder / "model.toml", output=folder / "model.aotb")
    except AotcError as error:
        return " ".join(sorted({finding.code for finding in error.findings}))
    return "ok"


def main(out: Path, folders: list[Path]) -> None:
    """Build what has no line yet, the smallest models first, and write the table."""
    out.mkdir(parents=True, exist_ok=True)
    done = out / "results.jsonl"
    lines = done.read_text("utf-8").splitlines() if done.exists() else []
    known = {(line["model"], line["engine"]): line["verdict"] for line in map(json.loads, lines)}
    suffixes = (".pt2", ".onnx", ".keras")
    paths = [path for folder in folders for path in folder.iterdir() if path.suffix in suffixes]
    paths = sorted((p for p in paths if p.with_suffix(".npz").exists()), key=_bytes)
    for path in paths:
        for engine in ENGINES:
            if (path.name, engine) in known:
                continue
            began = time.monotonic()
            found = known[path.name, engine] = verdict(path, engine, out)
            with done.open("a", encoding="utf-8") as stream:
                line = {"model": path.name, "engine": engine, "verdict": found}
                stream.write(json.dumps(line) + "\n")
            print(path.name, engine, found, f"{time.monotonic() - began:.0f} s", flush=True)
    rows = [f"| model | {' | '.join(ENGINES)} |", f"|---|{'---|' * len(ENGINES)}"]
    for name in sorted(path.name for path in paths):
        rows.append(f"| {name} | {' | '.join(known[name, engine] for engine in ENGINES)} |")
    (out / "table.md").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _bytes(path: Path) -> int:
    return path.stat().st_size


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), [*map(Path, sys.argv[2:])])
