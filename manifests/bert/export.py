"""Writes bert.onnx and what PyTorch computes with the model; aotc needs PyTorch nowhere.

python manifests/bert/export.py    # with torch, transformers, onnx and onnxscript
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn
from transformers import BertConfig, BertModel

HERE = Path(__file__).parent


class Encoder(nn.Module):  # type: ignore[misc]
    """A BERT of 10,000 weights with a pooled vector of the first token."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=64,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
        )
        self.bert = BertModel(config)

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        """Encode int64[batch, sequence] tokens; the mask is 0 behind the end of a text."""
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).pooler_output


def main() -> None:
    """Write the model, inputs, and PyTorch's results in both sizes."""
    torch.manual_seed(0)
    model = Encoder().eval()
    input_ids = torch.randint(0, 64, (4, 12))
    attention_mask = (torch.arange(12) < torch.tensor([[12], [3], [7], [1]])).long()
    batch = torch.export.Dim("batch", min=1, max=16)
    torch.onnx.export(
        model,
        (input_ids, attention_mask),
        HERE / "bert.onnx",
        input_names=["input_ids", "attention_mask"],
        output_names=["pooled"],
        dynamic_shapes={"input_ids": {0: batch}, "attention_mask": {0: batch}},
        dynamo=True,
        external_data=False,
    )
    made = onnx.load(HERE / "bert.onnx")
    for part in (*made.graph.node, *made.graph.value_info, *made.graph.initializer, made.graph):
        del part.metadata_props[:]  # paths and lines of whoever exported it, most of the file
    del made.graph.value_info[:]
    onnx.save(made, HERE / "bert.onnx")
    narrow = {"input_ids": input_ids.int().numpy(), "attention_mask": attention_mask.int().numpy()}
    np.savez_compressed(HERE / "inputs.npz", **narrow)
    with torch.no_grad():
        found = {
            f"pooled[batch={n}]": model(input_ids[:n], attention_mask[:n]).numpy() for n in (1, 4)
        }
    np.savez_compressed(HERE / "expected.npz", **found)


if __name__ == "__main__":
    main()
