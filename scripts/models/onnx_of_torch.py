"""Writes models of torchvision, transformers and torch as `.onnx`, with inputs and eager results.

    PYTHON_WITH_TORCH -m scripts.models.onnx_of_torch FOLDER [NAME…]

It needs torch, onnx and onnxscript, torchvision, timm and transformers, and nothing
of aotc. Models are those of `torch_models.py`; weights are random.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from scripts.models.torch_models import CASES, Case, Tagger, UNet, case, image, settled
from scripts.models.torch_recording import results, seed

AXES = {0: torch.export.Dim("batch", min=1, max=16)}


class Ranking(nn.Module):
    def forward(self, x: Any) -> Any:
        values, index = torch.topk(x, 5, dim=-1)
        return values, index, torch.cumsum(x, -1), torch.sort(x, -1).values, x.argmax(-1)


@case
def ranking() -> Case:
    return Ranking(), (torch.randn(3, 20),), {"dynamic": (AXES,)}


class Resized(nn.Module):
    """Another size, by two filters."""

    def forward(self, x: Any) -> Any:
        y = nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear")
        return nn.functional.interpolate(y, scale_factor=2.0, mode="bicubic")


@case
def resized() -> Case:
    return Resized(), (image(32),), {"dynamic": (AXES,)}


NAMES = (
    *("ranking", "resized", "lstm", "gru", "rnn", "encoder", "unet", "branch", "resnet18_batch"),
    *("deeplab", "torchvision_mobilenet_v3_small", "torchvision_efficientnet_b0"),
    *("torchvision_shufflenet_v2_x0_5", "torchvision_regnet_y_400mf", "torchvision_mnasnet0_5"),
    *("torchvision_squeezenet1_1", "timm_test_vit", "timm_test_convnext", "timm_densenet121"),
    *("timm_swin_tiny_patch4_window7_224", "hf_bert", "hf_roberta", "hf_distilbert"),
    *("hf_gpt2", "hf_llama", "hf_mistral", "hf_t5_encoder", "hf_albert"),
)

OLDER = {"lstm": 11, "gru": 13, "rnn": 17, "unet": 12, "resnet18": 9}
"""Those that the exporter of TorchScript writes, for these opsets: with LSTM and others as one
operator, and shapes computed node by node."""


def older(name: str) -> tuple[nn.Module, Any]:
    """Return a model of one input and one result, and the input."""
    if name == "unet":
        return settled(UNet()), image(32)
    if name == "resnet18":
        return CASES["resnet18_batch"]()[0], image()
    return Tagged(getattr(nn, name.upper())), torch.randint(0, 50, (3, 7))


class Tagged(Tagger):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(ids)[0]


def export(path: Path, model: nn.Module, inputs: tuple[Any, ...], **options: Any) -> None:
    """Write a model with what it returns eagerly."""
    kwargs = options.get("kwargs") or {}
    given = [x for x in (*inputs, *kwargs.values()) if isinstance(x, torch.Tensor)]
    model.eval()
    with torch.no_grad():
        found = list(results(model(*inputs, **kwargs)).values())
        torch.onnx.export(model, inputs, path, **options)
    arrays = {f"input{i}": value.numpy() for i, value in enumerate(given)}
    arrays |= {f"result{i}": value.numpy() for i, value in enumerate(found)}
    np.savez(path.with_suffix(".npz"), **arrays)


def main() -> None:
    """Export what is named, or all; what does not export is told and left out."""
    warnings.simplefilter("ignore")
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    new = {"dynamo": True, "verbose": False, "external_data": False}
    for name in names or (*NAMES, *(f"{each}.older" for each in OLDER)):
        path = Path(folder, f"{name}.onnx")
        seed(name)
        try:
            if name.endswith(".older"):
                model, x = older(name.removesuffix(".older"))
                axes = {"input_names": ["input"], "dynamic_axes": {"input": {0: "batch"}}}
                opset = OLDER[name.removesuffix(".older")]
                export(path, model, (x,), dynamo=False, opset_version=opset, **axes)
            else:
                model, inputs, options = CASES[name]()
                shapes, kwargs = options.get("dynamic"), options.get("kwargs")
                export(path, model, inputs, kwargs=kwargs, dynamic_shapes=shapes, **new)
        except Exception as error:  # noqa: BLE001 - told, and left out
            traceback.print_exc(limit=1)
            print(f"{name}: not exported: {type(error).__name__}", flush=True)
            continue
        print(f"{name}: exported", flush=True)


if __name__ == "__main__":
    main()
