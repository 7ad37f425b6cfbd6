"""Base of the models of target files."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from aotc.config.field_types import Name, Size

LINUX = "x86_64-unknown-linux-gnu"
TRIPLES = (LINUX,)

Text = Annotated[str, Field(min_length=1)]
Kinds = Annotated[list[Text], Field(min_length=1)]
Words = Annotated[list[str], Field(max_length=512)]
"""Features and the like: LLVM has some 200 of them, and each that is wrong is a finding."""
Devices = Annotated[Size, Field(le=65536)]


class TargetModel(BaseModel):
    """The keys of a target file; each kind adds its own, and `platform: Literal["its name"]`.

    `triple` is that of the host that runs the executables; `devices` how many they may be sharded
    over; `options` those of the compiler.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Annotated[Literal[1], Field(alias="schema")]
    name: Name
    description: str = ""
    platform: str
    triple: str = LINUX
    devices: Devices = 1
    options: dict[str, str] = {}
