"""The models in PyTorch, from aotc's own weights.

Small ones are written operation by operation, those of `cases.SIZED` as in `torch_sized`.
"""

# mypy: disable-error-code="misc, no-any-return"

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.compare import torch_sized

MAX_LENGTH = 128
HEADS = 4
LAYERS = 4
ROTARY_BASE = 10_000.0


class _Weighted(torch.nn.Module):
    """A module whose weights are reached by their names."""

    def __init__(self, weights: dict[str, Any]) -> None:
        super().__init__()
        for name, array in weights.items():
            self.register_buffer(name.replace("/", "__"), torch.from_numpy(array))

    def w(self, name: str) -> Any:
        return getattr(self, name.replace("/", "__"))


class Trivial(_Weighted):
    def forward(self, x: Any) -> Any:
        return x + 1


def _classified(logits: Any) -> Any:
    return logits.argmax(-1).to(torch.int32), logits.softmax(-1)


class Mlp(_Weighted):
    """digits.model:predict."""

    def forward(self, image: Any) -> Any:
        hidden = image / 16
        for name in ("hidden_1", "hidden_2"):
            hidden = functional.relu(hidden @ self.w(f"{name}/kernel") + self.w(f"{name}/bias"))
        return _classified(hidden @ self.w("output/kernel") + self.w("output/bias"))


class Vision(_Weighted):
    """vision.model:predict, in the layout that PyTorch knows (channels first)."""

    def __init__(self, weights: dict[str, Any]) -> None:
        turned = {
            name: np.ascontiguousarray(array.transpose(3, 2, 0, 1)) if array.ndim == 4 else array
            for name, array in weights.items()
        }
        super().__init__(turned)
        self.shortcuts = {name for name in weights if "shortcut" in name}

    def _convolution(self, image: Any, name: str, stride: int = 1) -> Any:
        kernel = self.w(f"{name}/kernel")
        # As XLA pads for SAME: an odd pixel goes to the end.
        needed = max(kernel.shape[-1] - (stride if image.shape[-1] % stride == 0 else 1), 0)
        low, high = needed // 2, needed - needed // 2
        return functional.conv2d(
            functional.pad(image, (low, high, low, high)), kernel, stride=stride
        )

    def _norm(self, image: Any, name: str) -> Any:
        return functional.batch_norm(
            image,
            self.w(f"{name}/mean"),
            self.w(f"{name}/variance"),
            self.w(f"{name}/scale"),
            self.w(f"{name}/offset"),
            eps=1e-5,
        )

    def forward(self, image: Any) -> Any:
        hidden = ((image - 0.5) / 0.25).permute(0, 3, 1, 2)
        hidden = functional.relu(self._norm(self._convolution(hidden, "stem"), "stem_norm"))
        for block in range(9):
            name, stride = f"blocks/{block}", 2 if block in (3, 6) else 1
            inner = self._convolution(hidden, f"{name}/first", stride)
            inner = functional.relu(self._norm(inner, f"{name}/first_norm"))
            added = self._norm(self._convolution(inner, f"{name}/second"), f"{name}/second_norm")
            if f"{name}/shortcut/kernel" in self.shortcuts:
                hidden = self._convolution(hidden, f"{name}/shortcut", stride)
            hidden = functional.relu(hidden + added)
        pooled = hidden.mean((2, 3))
        return _classified(pooled @ self.w("head/weight").T + self.w("head/bias"))


class Transformer(_Weighted):
    """lm.model:prefill."""

    def _normalize(self, hidden: Any, name: str) -> Any:
        mean = (hidden * hidden).mean(-1, keepdim=True)
        return hidden * torch.rsqrt(mean + 1e-6) * self.w(name)

    def forward(self, tokens: Any) -> Any:
        batch, seq = tokens.shape
        hidden = self.w("embedding")[tokens.long()]
        width = hidden.shape[-1]
        depth = width // HEADS
        frequencies = ROTARY_BASE ** -torch.arange(0, 1, 2 / depth, dtype=torch.float64)
        angles = torch.outer(torch.arange(seq, dtype=torch.float64), frequencies)[:, None, :]
        cosine, sine = angles.cos().float(), angles.sin().float()
        visible = torch.arange(MAX_LENGTH) <= torch.arange(seq)[:, None]

        def rotate(features: Any) -> Any:
            first, second = features.chunk(2, -1)
            return torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)

        cache = []
        for layer in range(LAYERS):
            name = f"layers/{layer}"
            qkv = self._normalize(hidden, f"{name}/attention_norm") @ self.w(f"{name}/qkv")
            query, key, value = qkv.reshape(batch, seq, 3, HEADS, depth).unbind(2)
            key, value = (
                functional.pad(part, (0, 0, 0, 0, 0, MAX_LENGTH - seq))
                for part in (rotate(key), value)
            )
            cache += [key, value]
            scores = torch.einsum("bqhd,bkhd->bhqk", rotate(query), key) / depth**0.5
            attention = scores.masked_fill(~visible, -torch.inf).softmax(-1)
            mixed = torch.einsum("bhqk,bkhd->bqhd", attention, value).reshape(batch, seq, width)
            hidden = hidden + mixed @ self.w(f"{name}/attention_out")
            inner = self._normalize(hidden, f"{name}/mlp_norm") @ self.w(f"{name}/mlp_in")
            hidden = hidden + functional.gelu(inner, approximate="tanh") @ self.w(f"{name}/mlp_out")
        last = self._normalize(hidden[:, -1], "final_norm")
        return (last @ self.w("unembedding"), *cache)


MODELS = {"mlp": Mlp, "vision": Vision, "transformer": Transformer, "trivial": Trivial}


def model(case: Path) -> torch.nn.Module:
    """The case's model with its weights, for inference."""
    with np.load(case / "weights.npz") as weights:
        arrays = {name: weights[name] for name in weights.files}
    known = {**MODELS, **torch_sized.MODELS}
    return known[case.name.partition("-")[0]](arrays).eval()


def given(case: Path) -> torch.Tensor:
    """The case's input."""
    return torch.from_numpy(np.load(case / "input.npy"))


def exported(case: Path) -> Any:
    """The case's model, as `torch.export` has it."""
    with torch.inference_mode():
        return torch.export.export(model(case), (given(case),))


def write(case: Path, file: Path) -> Path:
    """Write what `torch.export` makes of the case's model."""
    torch.export.save(exported(case), file)
    return file


def write_onnx(case: Path) -> Path:
    """Write what `torch.onnx.export` makes of the case's model."""
    path = case / "torch.onnx"
    options = {"input_names": ["input"], "dynamo": True, "optimize": True}
    torch.onnx.export(model(case), (given(case),), path, **options)
    return path
