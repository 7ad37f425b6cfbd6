"""Measures a small decoder whose cache is donated: `python -m benchmarks.decoder`.

`write` makes the files, in an environment with torch, transformers, onnx and onnxscript; weights
are random. `build` makes bundles of the `.pt2` files, and `measure` lets them and ONNX Runtime's
own session, on the `.onnx` files, read a prompt of 32 tokens and write 64 more, in turns in one
process. The session's caches are `OrtValue`s, which are not copied either.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.peers import aotc

LAYERS, HEADS, WIDTH, LENGTH, WORDS = 4, 4, 32, 160, 1000
BATCHES, PROMPT, NEW = (1, 4), 32, 64
SESSION = "onnxruntime's session"
PRECISIONS = {
    "float32": "",
    "int8": 'weights = "int8"',
    "dynamic": 'weights = "int8"\nactivations = "dynamic"',
}
MANIFEST = 'schema = 1\nname = "decoder"\nversion = "1.0.0"\ntargets = ["native"]\n'
ENTRY = """
[entry_points.read{tokens}_batch{batch}]
source = "{file}"
weights = "decoder"
donate = ["cache"]
{precision}
inputs.tokens = {{ shape = [{batch}, {tokens}], dtype = "int32" }}
inputs.positions = {{ shape = [{tokens}], dtype = "int32" }}
{cache}
tolerance = {{ rtol = 1e-3, atol = {atol} }}
fixtures.ranges = {{ tokens = [0, {last}], positions = [0, {end}], {ranges} }}
"""

type Model = Callable[[Any, Any, Any], tuple[Any, Any]]


def _network() -> Any:
    """Return a decoder of transformers that takes and returns its cache."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    class Cache:
        def __init__(self, held: Any, positions: Any) -> None:
            self.held, self.positions = [*held], positions

        def update(self, key: Any, value: Any, layer: int, **_: Any) -> tuple[Any, Any]:
            for place, new in enumerate((key, value), 2 * layer):
                self.held[place] = self.held[place].index_copy(2, self.positions, new)
            return self.held[2 * layer], self.held[2 * layer + 1]

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            config = LlamaConfig(
                hidden_size=256,
                intermediate_size=1024,
                num_hidden_layers=LAYERS,
                num_attention_heads=2 * HEADS,
                num_key_value_heads=HEADS,
                vocab_size=WORDS,
                max_position_embeddings=LENGTH,
                attn_implementation="eager",
            )
            self.llama = LlamaForCausalLM(config)

        def forward(self, tokens: Any, positions: Any, cache: Any) -> Any:
            held = Cache(cache, positions)
            seen = torch.arange(LENGTH) <= positions[:, None]
            hidden = self.llama.model(
                input_ids=tokens,
                attention_mask=torch.where(seen, 0.0, -1e9)[None, None],
                position_ids=positions[None],
                cache=held,
                use_cache=True,
            )
            return self.llama.lm_head(hidden.last_hidden_state[:, -1]), held.held

    return Network()


def empty_cache(batch: int) -> list[np.ndarray[Any, Any]]:
    """Return the keys and values of each layer, one after the other."""
    return [np.zeros((batch, HEADS, LENGTH, WIDTH), np.float32) for _ in range(2 * LAYERS)]


def write(folder: Path) -> None:
    """Write the files that read a prompt and a token, for each batch."""
    import torch

    torch.manual_seed(0)
    model = _network().eval()
    for batch in BATCHES:
        for tokens in (PROMPT, 1):
            cache = [*map(torch.from_numpy, empty_cache(batch))]
            given = (torch.ones(batch, tokens, dtype=torch.int64), torch.arange(tokens), cache)
            with torch.no_grad():
                program = torch.export.export(model, given)
            name = f"read{tokens}_batch{batch}"
            torch.export.save(program, folder / f"{name}.pt2")
            torch.onnx.export(program, dynamo=True).save(folder / f"{name}.onnx")


def build(folder: Path, engine: str, precision: str) -> None:
    """Build the bundle of all four files for an engine, where it is not there."""
    case = folder / f"{engine}-{precision}"
    if (case / "model.trust.toml").exists():
        return
    (case / "program").mkdir(parents=True, exist_ok=True)
    keys = PRECISIONS[precision]
    text = MANIFEST + f'engines = ["{engine}"]\n'
    for batch in BATCHES:
        for tokens in (PROMPT, 1):
            text += ENTRY.format(
                tokens=tokens,
                batch=batch,
                file=(folder / f"read{tokens}_batch{batch}.pt2").absolute(),
                cache="\n".join(
                    f'inputs.cache.{place} = {{ shape = {[*each.shape]}, dtype = "float32" }}'
                    for place, each in enumerate(empty_cache(batch))
                ),
                ranges=", ".join(f'"cache/{place}" = [-3, 3]' for place in range(2 * LAYERS)),
                precision='precision = "own"' if keys else "",
                atol=0.1 if "activations" in keys else 1e-3,
                last=WORDS - 1,
                end=LENGTH - 1,
            )
    text += f"[precision.own]\n{keys}\n" if keys else ""
    (case / "program" / "manifest.toml").write_text(text)
    aotc.prepare(case)


def _loaded(folder: Path, case: str, batch: int) -> Sequence[Model]:
    """Return what reads a prompt, and what reads a token, of a bundle or of the session."""
    names = [f"read{tokens}_batch{batch}" for tokens in (PROMPT, 1)]
    if case != SESSION:
        import aotc_runtime

        place = folder / case
        bundle = aotc_runtime.load(place / "model.aotb", trust=place / "model.trust.toml")
        return [_of_bundle(bundle[name]) for name in names]
    return [_of_session(folder / f"{name}.onnx") for name in names]


def _of_bundle(entry: Any) -> Model:
    def call(tokens: Any, positions: Any, cache: Any) -> tuple[Any, Any]:
        by_place = {str(place): each for place, each in enumerate(cache)}
        logits, held = entry.on_device(tokens, positions, by_place)
        return np.asarray(logits), held

    return call


def _of_session(path: Path) -> Model:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    taken = [each.name for each in session.get_inputs()]
    made = [each.name for each in session.get_outputs()]
    value = onnxruntime.OrtValue.ortvalue_from_numpy

    def call(tokens: Any, positions: Any, cache: Any) -> tuple[Any, Any]:
        held = [value(each) if isinstance(each, np.ndarray) else each for each in cache]
        given = [value(tokens.astype(np.int64)), value(positions.astype(np.int64)), *held]
        logits, *left = session.run_with_ort_values(made, dict(zip(taken, given, strict=True)))
        return logits.numpy(), left

    return call


def generate(model: Sequence[Model], batch: int) -> tuple[float, float, Any]:
    """Return the seconds of the prompt and of the tokens after it, and these."""
    read, step = model
    tokens = np.arange(batch * PROMPT, dtype=np.int32).reshape(batch, PROMPT) % WORDS
    cache: Any = empty_cache(batch)
    started = time.perf_counter()
    logits, cache = read(tokens, np.arange(PROMPT, dtype=np.int32), cache)
    begun = time.perf_counter()
    written = []
    for place in range(PROMPT, PROMPT + NEW):
        token = logits.argmax(-1).astype(np.int32)[:, None]
        written.append(token)
        logits, cache = step(token, np.array([place], np.int32), cache)
    return begun - started, time.perf_counter() - begun, np.concatenate(written, 1)


def measure(folder: Path, cases: Sequence[str], batch: int, rounds: int) -> None:
    """Print a line for each: milliseconds of the prompt, tokens per second, of the session's.

    They are lower quartiles, which other work on the machine moves less than medians.
    """
    models = {case: _loaded(folder, case, batch) for case in (SESSION, *cases)}
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in models}
    texts = {}
    for number in range(rounds + 1):
        for case in [*models] if number % 2 == 0 else [*models][::-1]:
            prompt, rest, texts[case] = generate(models[case], batch)
            found[case] += [(prompt, rest)] * bool(number)
    quartiles = {
        case: [sorted(each)[len(each) // 4] for each in zip(*taken, strict=True)]
        for case, taken in found.items()
    }
    for case, (prompt, rest) in quartiles.items():
        of_prompt, of_rest = quartiles[SESSION][0] / prompt, quartiles[SESSION][1] / rest
        equal = (texts[case] == texts[SESSION]).mean()
        print(
            f"batch {batch} {case:24}{prompt * 1e3:9.2f} ms{of_prompt:7.2f}"
            f"{NEW * batch / rest:10.0f} tokens/s{of_rest:7.2f}   equal {equal:.2f}",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write, build or measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoder", description=main.__doc__)
    parser.add_argument("what", choices=["write", "build", "measure"])
    parser.add_argument("--engines", default="onnxruntime,xla")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--folder", type=Path, default=Path("out/decoder"))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    pairs = [(e, p) for e in options.engines.split(",") for p in options.precisions.split(",")]
    if options.what == "write":
        write(options.folder)
    elif options.what == "build":
        for engine, precision in pairs:
            try:
                build(options.folder, engine, precision)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this row's figure
                print(f"{engine}-{precision}: {str(error)[:500]}", flush=True)
    else:
        cases = [f"{engine}-{precision}" for engine, precision in pairs]
        there = [case for case in cases if (options.folder / case / "model.trust.toml").exists()]
        for batch in BATCHES:
            measure(options.folder, there, batch, options.rounds)


if __name__ == "__main__":
    main()
