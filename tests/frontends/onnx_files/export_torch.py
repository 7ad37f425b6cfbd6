"""Writes models of torchvision, transformers and torch as `.onnx`, with inputs and eager results.

    PYTHON_WITH_TORCH tests/frontends/onnx_files/export_torch.py FOLDER [NAME…]

It needs torch, onnx and onnxscript, torchvision and transformers for their models, and nothing of
aotc. Weights are random.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

if not hasattr(torch.ops.torchvision, "nms"):
    # for a torchvision whose compiled part is of another torch: models need none of its operators
    LIBRARY = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        LIBRARY.define(f"{_name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")

BATCH = torch.export.Dim("batch", min=1, max=16)
SEQUENCE = torch.export.Dim("sequence", min=2, max=64)


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(8, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0][:, -1])


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.embed = nn.Embedding(100, 32)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Any) -> Any:
        return self.layers(self.embed(ids)).mean(1)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Conv2d(11, 2, 1)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm(self.down(x)))
        y = nn.functional.interpolate(self.middle(y), scale_factor=0.5, mode="bilinear")
        y = nn.functional.interpolate(y, scale_factor=2.0, mode="bicubic")
        return self.last(torch.cat([self.up(y), x], 1))


class Ranking(nn.Module):
    def forward(self, x: Any) -> Any:
        values, index = torch.topk(x, 5, dim=-1)
        return values, index, torch.cumsum(x, -1), torch.sort(x, -1).values, x.argmax(-1)


class Conditional(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def vision(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        import torchvision

        model = torchvision.models.get_model(name, weights=None, **options)
        return model, (torch.randn(2, 3, 64, 64),), ({0: BATCH},)

    return make


def segmentation(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import torchvision

        class Only(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = torchvision.models.get_model(
                    name, weights=None, weights_backbone=None, num_classes=5
                )

            def forward(self, x: Any) -> Any:
                return self.model(x)["out"]

        return Only(), (torch.randn(1, 3, 64, 64),), None

    return make


def text(config: str, model: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        made = getattr(transformers, config)(**options)
        made._attn_implementation = "eager"

        class Only(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = getattr(transformers, model)(made)

            def forward(self, ids: Any) -> Any:
                return self.model(input_ids=ids, return_dict=False, **extra)[0]

        extra = {"use_cache": False} if model in ("GPT2Model", "LlamaModel", "MistralModel") else {}
        return Only(), (torch.randint(0, 90, (2, 12)),), ({0: BATCH, 1: SEQUENCE},)

    return make


SMALL = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: (Recurrent("LSTM"), (torch.randn(2, 7, 8),), ({0: BATCH},)),
    "gru": lambda: (Recurrent("GRU"), (torch.randn(2, 7, 8),), ({0: BATCH},)),
    "rnn": lambda: (Recurrent("RNN"), (torch.randn(2, 7, 8),), ({0: BATCH},)),
    "encoder": lambda: (Encoder(), (torch.randint(0, 100, (2, 9)),), ({0: BATCH, 1: SEQUENCE},)),
    "unet": lambda: (UNet(), (torch.randn(2, 3, 32, 32),), ({0: BATCH},)),
    "ranking": lambda: (Ranking(), (torch.randn(3, 20),), ({0: BATCH},)),
    "cond": lambda: (Conditional(), (torch.randn(3, 4),), None),
    "resnet18": vision("resnet18"),
    "mobilenet_v3": vision("mobilenet_v3_small"),
    "efficientnet": vision("efficientnet_b0"),
    "convnext": vision("convnext_tiny"),
    "vit": vision("vit_b_16", image_size=64),
    "swin": vision("swin_t"),
    "densenet": vision("densenet121"),
    "shufflenet": vision("shufflenet_v2_x0_5"),
    "regnet": vision("regnet_y_400mf"),
    "mnasnet": vision("mnasnet0_5"),
    "squeezenet": vision("squeezenet1_1"),
    "deeplab": segmentation("deeplabv3_mobilenet_v3_large"),
    "fcn": segmentation("fcn_resnet50"),
    "bert": text("BertConfig", "BertModel", **SMALL, intermediate_size=64),
    "roberta": text("RobertaConfig", "RobertaModel", **SMALL, intermediate_size=64),
    "distilbert": text(
        "DistilBertConfig", "DistilBertModel", vocab_size=100, dim=32, n_layers=2, n_heads=4,
        hidden_dim=64,
    ),
    "gpt2": text("GPT2Config", "GPT2Model", vocab_size=100, n_embd=32, n_layer=2, n_head=4),
    "llama": text(
        "LlamaConfig", "LlamaModel", **SMALL, intermediate_size=64, num_key_value_heads=2
    ),
    "mistral": text(
        "MistralConfig", "MistralModel", **SMALL, intermediate_size=64, num_key_value_heads=2
    ),
    "t5": text(
        "T5Config", "T5EncoderModel", vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2,
        num_heads=4,
    ),
    "albert": text(
        "AlbertConfig", "AlbertModel", **SMALL, intermediate_size=64, embedding_size=16
    ),
}  # fmt: skip

OLDER = {"lstm": 11, "gru": 13, "rnn": 17, "unet": 12, "resnet18": 9}
"""Those that the exporter of TorchScript writes too, for these opsets: with LSTM and others as one
operator, and shapes computed node by node."""


def _record(path: Path, inputs: Any, results: Any) -> None:
    arrays = {f"input{i}": value.numpy() for i, value in enumerate(inputs)}
    arrays |= {f"result{i}": value.numpy() for i, value in enumerate(results)}
    np.savez(path.with_suffix(".npz"), **arrays)


def _older(path: Path, model: Any, inputs: Any, results: Any, dynamic: Any) -> None:
    axes = {"input": {axis: size.__name__ for axis, size in dynamic[0].items()}}
    path = path.with_name(f"{path.stem}_opset{OLDER[path.stem]}.onnx")
    torch.onnx.export(
        model, inputs, path, dynamo=False, input_names=["input"], dynamic_axes=axes,
        opset_version=OLDER[path.stem.rpartition("_")[0]],
    )  # fmt: skip
    _record(path, inputs, (results,))


def main() -> None:
    """Export what is named, or all; what does not export is told and left out."""
    warnings.simplefilter("ignore")
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name in names or MODELS:
        path = Path(folder, f"{name}.onnx")
        try:
            model, inputs, dynamic = MODELS[name]()
            model.eval()
            with torch.no_grad():
                results = model(*inputs)
                torch.onnx.export(
                    model, inputs, path, dynamo=True, dynamic_shapes=dynamic, verbose=False,
                    external_data=False,
                )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - told, and left out
            traceback.print_exc(limit=1)
            print(f"{name}: not exported: {type(error).__name__}", flush=True)
            continue
            if name in OLDER:
                _older(path, model, inputs, results, dynamic)
        results = results if isinstance(results, tuple) else (results,)
        _record(path, inputs, results)
        print(f"{name}: exported", flush=True)


if __name__ == "__main__":
    main()
