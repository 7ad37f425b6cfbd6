"""ResNet-50 and the encoder in PyTorch, as its users write them, with our weights."""

# mypy: disable-error-code="misc, no-any-return"

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.compare.onnx_sized import DEPTHS, EPSILON, HEADS, LAYERS, WIDTH

Weights = dict[str, np.ndarray[Any, Any]]


def _fill(parameter: torch.Tensor, array: np.ndarray[Any, Any]) -> None:
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))


class _Convolution(nn.Module):
    """A convolution and its batch normalization."""

    def __init__(self, weights: Weights, name: str, stride: int = 1) -> None:
        super().__init__()
        kernel = weights[f"{name}_kernel"].transpose(3, 2, 0, 1)
        after, before, size, _ = kernel.shape
        self.convolution = nn.Conv2d(before, after, size, stride, (size - 1) // 2, bias=False)
        self.norm = nn.BatchNorm2d(after, eps=EPSILON)
        _fill(self.convolution.weight, kernel)
        _fill(self.norm.weight, weights[f"{name}_scale"])
        _fill(self.norm.bias, weights[f"{name}_offset"])
        _fill(self.norm.running_mean, weights[f"{name}_mean"])
        _fill(self.norm.running_var, weights[f"{name}_variance"])

    def forward(self, image: Any) -> Any:
        return self.norm(self.convolution(image))


class _Block(nn.Module):
    def __init__(self, weights: Weights, name: str, stride: int) -> None:
        super().__init__()
        self.one = _Convolution(weights, f"{name}_one")
        self.two = _Convolution(weights, f"{name}_two", stride)
        self.three = _Convolution(weights, f"{name}_three")
        has_other = f"{name}_beside_kernel" in weights
        self.beside = _Convolution(weights, f"{name}_beside", stride) if has_other else None

    def forward(self, image: Any) -> Any:
        inner = functional.relu(self.one(image))
        inner = self.three(functional.relu(self.two(inner)))
        return functional.relu(inner + (image if self.beside is None else self.beside(image)))


class Resnet(nn.Module):
    """resnet:run. Images as our program takes them, channels last."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.stem = _Convolution(weights, "stem", 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(
            *(
                _Block(weights, f"block{stage}{index}", 2 if stage and not index else 1)
                for stage, depth in enumerate(DEPTHS)
                for index in range(depth)
            )
        )
        self.head = nn.Linear(*weights["head"].shape)
        _fill(self.head.weight, weights["head"].T)
        _fill(self.head.bias, weights["head_bias"])

    def forward(self, image: Any) -> Any:
        hidden = self.pool(functional.relu(self.stem(image.permute(0, 3, 1, 2))))
        return self.head(self.blocks(hidden).mean((2, 3))).softmax(-1)


class _Layer(nn.Module):
    def __init__(self, weights: Weights, layer: int) -> None:
        super().__init__()
        self.dense = nn.ModuleDict()
        for name in ("qkv", "mixed", "up", "down"):
            kernel = weights[f"{name}_{layer:02}"]
            self.dense[name] = nn.Linear(*kernel.shape)
            _fill(self.dense[name].weight, kernel.T)
            _fill(self.dense[name].bias, weights[f"{name}_bias_{layer:02}"])
        self.middle, self.last = (
            _norm(weights, f"{name}_{layer:02}") for name in ("middle", "last")
        )

    def forward(self, hidden: Any) -> Any:
        batch, seq, width = hidden.shape
        parts = self.dense["qkv"](hidden).chunk(3, -1)
        query, key, value = (part.view(batch, seq, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        mixed = mixed.transpose(1, 2).reshape(batch, seq, width)
        hidden = self.middle(hidden + self.dense["mixed"](mixed))
        return self.last(hidden + self.dense["down"](functional.gelu(self.dense["up"](hidden))))


def _norm(weights: Weights, name: str) -> nn.LayerNorm:
    norm = nn.LayerNorm(WIDTH, eps=EPSILON)
    _fill(norm.weight, weights[f"scale_{name}"])
    _fill(norm.bias, weights[f"offset_{name}"])
    return norm


class Encoder(nn.Module):
    """encoder:run."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.tokens = nn.Embedding(*weights["tokens"].shape)
        self.places = nn.Embedding(*weights["places"].shape)
        _fill(self.tokens.weight, weights["tokens"])
        _fill(self.places.weight, weights["places"])
        self.first = _norm(weights, "first")
        self.layers = nn.Sequential(*(_Layer(weights, n) for n in range(LAYERS)))

    def forward(self, tokens: Any) -> Any:
        places = torch.arange(tokens.shape[1])
        return self.layers(self.first(self.tokens(tokens) + self.places(places)))


MODELS: dict[str, type[Resnet | Encoder]] = {"resnet": Resnet, "encoder": Encoder}
