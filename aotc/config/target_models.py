"""The keys of target files, one model for each platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from aotc.config.fields import Name, Size, accepting

LINUX = "x86_64-unknown-linux-gnu"

Text = Annotated[str, Field(min_length=1)]
Kinds = Annotated[list[Text], Field(min_length=1)]
Words = Annotated[list[str], Field(max_length=512)]
"""Features and the like: LLVM has some 200 of them, and each that is wrong is a finding."""
Devices = Annotated[Size, Field(le=65536)]
Capability = Annotated[
    str,
    accepting(
        lambda v: re.fullmatch(r"[1-9][0-9]?\.[0-9]", v) is not None,
        'a compute capability such as "9.0"',
        "NVIDIA lists them by product: developer.nvidia.com/cuda-gpus",
    ),
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Annotated[Literal[1], Field(alias="schema")]
    name: Name
    description: str = ""


class CpuModel(_Model):
    """A processor."""

    platform: Literal["cpu"]
    triple: str
    cpu: str
    features: Annotated[Words, Field(min_length=1)]
    tuning: Words = []
    threads: Annotated[Size, Field(le=4096)]
    devices: Devices = 1
    options: dict[str, str] = {}


class CudaModel(_Model):
    """NVIDIA GPUs. device: a description in the CUDA plugin.  changes: fields of it, set anew.
    text: the description itself, for plugins that have none of that name.
    """

    platform: Literal["cuda"]
    triple: str = LINUX
    device: Text
    changes: dict[str, str] = {}
    text: str = ""
    compute_capability: Capability
    kinds: Kinds
    devices: Devices = 1
    options: dict[str, str] = {}


class TpuModel(_Model):
    """Chips of a TPU slice. topology: as libtpu names it, "v5e:2x2"."""

    platform: Literal["tpu"]
    triple: str = LINUX
    topology: Text
    kinds: Kinds
    devices: Devices = 1
    options: dict[str, str] = {}


class RocmModel(_Model):
    """AMD GPUs. architecture: LLVM's name for their instructions, "gfx942"."""

    platform: Literal["rocm"]
    triple: str = LINUX
    architecture: Text
    kinds: Kinds
    devices: Devices = 1
    options: dict[str, str] = {}


type TargetModel = CpuModel | CudaModel | TpuModel | RocmModel

MODELS: Mapping[str, type[CpuModel] | type[CudaModel] | type[TpuModel] | type[RocmModel]] = {
    "cpu": CpuModel,
    "cuda": CudaModel,
    "rocm": RocmModel,
    "tpu": TpuModel,
}
"""By what `platform` says."""


class AnyPlatform(BaseModel):
    """A file whose `platform` says nothing that decides how to read it."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    platform: Literal["cpu", "cuda", "rocm", "tpu"]
