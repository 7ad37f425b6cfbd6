"""Writes resnet.pt2 and what PyTorch computes with it, where PyTorch is: aotc needs it nowhere.

python manifests/resnet/export.py    # with PyTorch 2.9 or newer
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent


class Block(nn.Module):  # type: ignore[misc]
    """Two convolutions beside a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        """Return the block of float32[batch, inside, height, width]."""
        found = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(found)) + self.shortcut(x))


class ResNet(nn.Module):  # type: ignore[misc]
    """A residual network of 3,900 weights; logits of 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.block = Block(8, 16, 2)
        self.head = nn.Linear(16, 10)

    def forward(self, image: Any) -> dict[str, Any]:
        """Return the logits of float32[batch, 3, 16, 16]."""
        found = self.block(torch.relu(self.stem(image))).mean((2, 3))
        return {"logits": self.head(found)}


def without_folders(path: Path) -> None:
    """Leave of the sources that the archive names for each operator their last part: the rest is
    different wherever this runs.
    """
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), re.sub(rb'(File \\")[^"]*/', rb"\1", data))


def main() -> None:
    """Write the model, inputs, and its own results in both sizes."""
    torch.manual_seed(0)
    model = ResNet()
    image = torch.randn(8, 3, 16, 16)
    model(image)  # running means that are not 0
    model.eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (image[:2],), dynamic_shapes={"image": {0: batch}})
    torch.export.save(program, HERE / "resnet.pt2")
    without_folders(HERE / "resnet.pt2")
    np.savez_compressed(HERE / "inputs.npz", image=image.numpy())
    with torch.no_grad():
        found = {f"logits[batch={n}]": model(image[:n])["logits"].numpy() for n in (1, 8)}
    np.savez_compressed(HERE / "expected.npz", **found)


if __name__ == "__main__":
    main()
