"""Builds models of other projects for every engine and compares calls with what was recorded.

`python -m tests.frontends.more_models.compare FOLDER [NAME …]`, where aotc and its engines are: of
each NAME.pt2, .onnx or .keras in FOLDER and its NAME.npz it builds one bundle for each engine,
calls it with the inputs that `inputs.py` made, in turns and the first of them again, and writes
FOLDER/results.jsonl and FOLDER/table.md. What results.jsonl has is not built again. Small models
come first, and one of each library before the second of any.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.more_models.inputs import CALLS
from tests.frontends.pytorch.recorded import apart, named

ROOT = Path(__file__).resolve().parents[3]
ENGINES = ("xla", "onnxruntime", "openvino", "iree")
BUILD_SECONDS, CALL_SECONDS = 400, 120
FAR = 1e-4
"""Of ordinary calls, relative to the largest element; ten times that of those with large ones."""

ORDER = (*CALLS, "first", "nonfinite", "second", "first")


def manifest(path: Path, engine: str) -> str:
    """Return a build manifest for a model whose sizes are fixed."""
    return "\n".join(
        [
            'schema = 1\nname = "model"\nversion = "1.0.0"\ntargets = ["cpu-x86-64-v3"]',
            f'engines = ["{engine}"]\n[entry_points.run]\nsource = "{path.name}"',
            *_narrowed(path),
            "tolerance = { rtol = 1e-4, atol = 1e-5 }",
            f'[entry_points.run.fixtures]\nfile = "{path.stem}.fixture.npz"\n',
        ]
    )


def read(path: Path) -> Any:
    from aotc.capture.model_files.frontend_protocol import ModelFile
    from aotc.capture.model_files.frontend_registry import read_model

    return read_model(
        ModelFile(path.name, path.read_bytes(), None, lambda _: b"", False), path.name
    )


def _inputs(path: Path) -> list[Any]:
    return [each for each in read(path).inputs if each.initial is None]


def _narrowed(path: Path) -> Iterator[str]:
    rows = len(np.load(path.with_suffix(".npz"))["first/in/000"])
    for each in _inputs(path):
        shape = [size if isinstance(size, int) else rows for size in each.shape]
        dtype = np.dtype("int32") if each.dtype == np.int64 else each.dtype
        yield f'inputs.{each.name} = {{ shape = {shape}, dtype = "{dtype}" }}'


def calls(path: Path) -> dict[str, list[np.ndarray[Any, Any]]]:
    """Return the arguments of each call, int64 as int32."""
    recorded = np.load(path.with_suffix(".npz"))
    return {
        call: [
            recorded[key].astype(np.int32) if recorded[key].dtype == np.int64 else recorded[key]
            for key in sorted(recorded)
            if key.startswith(f"{call}/in/")
        ]
        for call in CALLS
    }


def plain(path: Path, given: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    """Return what plain JAX computes."""
    import jax

    model = read(path)
    return named(jax.jit(model.function)(dict(model.weights), *given))


def judged(path: Path, bundle: Path, trust: Path) -> dict[str, Any]:
    """Return how far calls of a bundle are from what was recorded, and repeats from each other; of
    those that are too far, also how far they are from plain JAX.
    """
    import aotc_runtime

    recorded, given = np.load(path.with_suffix(".npz")), calls(path)
    entry = aotc_runtime.load(bundle, trust=trust)["run"]
    far: dict[str, float] = {}
    from_plain: dict[str, float] = {}
    seen: dict[str, dict[str, Any]] = {}
    repeats = 0.0
    for call in ORDER:
        found = {key: np.array(value) for key, value in named(entry(*given[call])).items()}
        start = f"{call}/out/"
        wanted = {k.removeprefix(start): recorded[k] for k in recorded if k.startswith(start)}
        if not wanted:  # the library refuses such numbers
            wanted = plain(path, given[call])
        if len(found) == len(wanted) == 1:
            found = {next(iter(wanted)): next(iter(found.values()))}
        if call in seen:
            repeats = max([repeats, *(apart(found[key], seen[call][key]) for key in found)])
        seen[call] = found
        if found.keys() != wanted.keys():
            return {"error": f"results {sorted(found)}, not {sorted(wanted)}"[:300]}
        far[call] = max(apart(found[key], wanted[key]) for key in wanted)
        if far[call] > limit(call):
            ours = plain(path, given[call]).values()
            from_plain[call] = max(map(apart, found.values(), map(np.asarray, ours)))
    return {"far": far, "repeats": repeats, "from_plain": from_plain}


def limit(call: str) -> float:
    """Return how far results of a call may be from what was recorded."""
    return FAR if call in ("first", "second") else 10 * FAR


def build(path: Path, engine: str, folder: Path) -> dict[str, Any]:
    """Build a bundle for one engine and call it in a process of its own."""
    text = path.parent / f"{path.stem}.{engine}.toml"
    text.write_text(manifest(path, engine), encoding="utf-8")
    bundle = folder / f"{path.stem}.{engine}.aotb"
    bundle.unlink(missing_ok=True)
    aotc = [str(Path(sys.executable).with_name("aotc")), "build", str(text)]
    aotc += ["--key", str(folder / "ci.key"), "--output", str(bundle)]
    status, said = _run([*aotc, "--cache", str(folder / "cache")], BUILD_SECONDS)
    if status:
        codes = sorted(set(re.findall(r"AOTC-E\d+", said)))
        lines = [line.strip() for line in said.splitlines() if line.strip().startswith("found")]
        return {"codes": codes, "said": (lines or said.splitlines()[-3:])[:4]}
    again = [sys.executable, "-m", "tests.frontends.more_models.compare", "--call"]
    again += [str(path), str(bundle), str(folder / "trust.toml")]
    status, said = _run(again, CALL_SECONDS)
    bundle.unlink(missing_ok=True)
    if status:
        return {"error": said[-300:]}
    found: dict[str, Any] = json.loads(
        next(line for line in said.splitlines() if line.startswith("{"))
    )
    return found


def _run(command: list[str], seconds: int) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return 124, f"AOTC no end after {seconds} s"
    return done.returncode, done.stdout + done.stderr


def verdict(found: dict[str, Any]) -> str:
    """Return one cell of the table."""
    if "codes" in found:
        return f"refused: {' '.join(found['codes']) or 'no end'}"
    if "error" in found:
        return "error"
    plain_too = [call for call, far in found["from_plain"].items() if far <= limit(call)]
    wrong = [call for call in found["from_plain"] if call not in plain_too]
    wrong += ["repeats"] if found["repeats"] > FAR else []
    if wrong:
        return f"differs: {', '.join(wrong)}"
    return f"as plain JAX: {', '.join(plain_too)}" if plain_too else "ok"


def by_turns(paths: list[Path]) -> list[Path]:
    """Return paths by size, one of each library in turn."""
    seen: dict[str, int] = {}
    turns: list[tuple[int, int, Path]] = []
    for size, path in sorted((path.stat().st_size, path) for path in paths):
        library = path.name.partition("_")[0]
        seen[library] = seen.get(library, 0) + 1
        turns.append((seen[library], size, path))
    return [path for _, _, path in sorted(turns)]


def main(folder: Path, names: list[str]) -> None:
    done = folder / "results.jsonl"
    lines = done.read_text("utf-8").splitlines() if done.exists() else []
    known = {(line["model"], line["engine"]): line for line in map(json.loads, lines)}
    aotc = str(Path(sys.executable).with_name("aotc"))
    if not (folder / "ci.key").exists():
        _run([aotc, "keygen", "--plain", str(folder / "ci")], 60)
        key = ["--key", str(folder / "ci.pub"), "--name", "model"]
        _run([aotc, "trust", "init", *key, "--output", str(folder / "trust.toml")], 60)
    paths = [each for each in folder.iterdir() if each.suffix in (".pt2", ".onnx", ".keras")]
    for path in by_turns(paths):
        if (names and path.stem not in names) or not path.with_suffix(".npz").exists():
            continue
        for engine in ENGINES:
            if (path.name, engine) in known:
                continue
            began = time.monotonic()
            try:
                given = zip(_inputs(path), calls(path)["first"], strict=True)
                fixture = {each.name: array for each, array in given}
                np.savez(folder / f"{path.stem}.fixture.npz", **fixture)
                found = build(path, engine, folder)
            except Exception as error:  # noqa: BLE001  told of each model
                found = {"codes": [], "said": [f"{type(error).__name__}: {error}"[:600]]}
            seconds = round(time.monotonic() - began)
            line = {"model": path.name, "engine": engine, "verdict": verdict(found), **found}
            line["seconds"] = seconds
            known[path.name, engine] = line
            with done.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
            print(path.name, engine, line["verdict"], f"{seconds} s", flush=True)
            if "codes" in found and not found["codes"] and engine == "xla":
                break
    rows = [f"| model | {' | '.join(ENGINES)} |", f"|---|{'---|' * len(ENGINES)}"]
    for path in sorted(paths):
        cells = [known.get((path.name, engine), {}).get("verdict", "") for engine in ENGINES]
        rows.append(f"| {path.name} | {' | '.join(cells)} |")
    (folder / "table.md").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--call":
        print(json.dumps(judged(*map(Path, sys.argv[2:5]))))
    else:
        main(Path(sys.argv[1]).absolute(), sys.argv[2:])
