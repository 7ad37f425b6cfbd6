"""A build manifest as it is written: the keys, their types and their defaults.

`aotc.config.relations` checks what needs more than one key to judge.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from aotc.config.fields import (
    Bytes,
    Error,
    FileText,
    FunctionReference,
    Identifier,
    Name,
    Number,
    Plain,
    Size,
    Version,
    accepting,
)
from aotc.config.gates import GatesModel
from aotc_runtime.schema.mesh import DEVICES_MAX

RESERVED_WEIGHTS = "closure"
"""The weights set that a build makes of the arrays which functions close over."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WeightsModel(_Model):
    """`[weights.NAME]`: where bound parameters come from."""

    source: FileText | None = None
    init: FunctionReference | None = None
    shardings: dict[str, Any] = {}


class DimensionModel(_Model):
    """`[dimensions.NAME]`: a named size. profiles: see `aotc.config.dimensions`."""

    range: Annotated[
        list[Size],
        accepting(lambda v: len(v) == 2, "[smallest, largest]", "give both ends"),
        Field(examples=["range = [1, 64]"]),
    ]
    profiles: Any = None
    multiple_of: Size = 1


Profiles = Annotated[
    list[dict[Identifier, Size]],
    accepting(lambda v: len(v) > 0, "at least one profile", "name the sizes to compile for"),
]
"""An entry point's own list of profiles: each a size for every dimension."""


class ToleranceModel(_Model):
    """|actual - expected| <= atol + rtol * |expected|."""

    rtol: Error = 1e-5
    atol: Error = 1e-6


class FixturesModel(_Model):
    """`[entry_points.NAME.fixtures]`: the inputs that every executable is checked with, and the
    results, where plain JAX cannot compute them.
    """

    file: FileText | None = None
    results: FileText | None = None
    seed: (
        Annotated[int, accepting(lambda v: v >= 0, "an integer of at least 0", "choose another")]
        | None
    ) = None
    ranges: dict[
        str,
        Annotated[
            list[Number],
            accepting(lambda v: len(v) == 2, "[lowest, highest]", "give both ends"),
        ],
    ] = {}


class ShardingsModel(_Model):
    """`[entry_points.NAME.shardings]`, by leaf path: see `aotc.config.shardings`."""

    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}


class EntryPointModel(_Model):
    """`[entry_points.NAME]`: a pure function to compile. inputs: see `aotc.config.inputs`;
    out_of_profile: see `aotc.config.policies`.
    """

    function: Annotated[FunctionReference, Field(examples=['function = "digits.model:predict"'])]
    bind: dict[Identifier, str] = {}
    inputs: dict[Identifier, Any] = {}
    static: dict[Identifier, Plain] = {}
    donate: list[str] = []
    profiles: Profiles = []
    relations: list[str] = []
    out_of_profile: dict[Identifier, Any] = {}
    shardings: ShardingsModel = ShardingsModel()
    tolerance: ToleranceModel = ToleranceModel()
    fixtures: FixturesModel = FixturesModel()


class TargetDimensionModel(_Model):
    """`[target.NAME.dimensions.NAME]`."""

    profiles: Any = None


class TargetEntryPointModel(_Model):
    """`[target.NAME.entry_points.NAME]`."""

    profiles: Profiles = []


class TargetProfilesModel(_Model):
    """`[target.NAME]`: profiles for one target, in place of those for all, how many devices it has,
    and what a call of a profile may take.
    """

    devices: Annotated[Size, Field(le=DEVICES_MAX)] | None = None
    memory_limit: Bytes | None = None

    dimensions: dict[str, TargetDimensionModel] = {}
    entry_points: dict[str, TargetEntryPointModel] = {}


class BuildManifestModel(_Model):
    """The file as a whole."""

    schema_: Annotated[
        int,
        accepting(lambda v: v == 1, "1", "write schema = 1"),
        Field(alias="schema", examples=["schema = 1"]),
    ]
    name: Annotated[Name, Field(examples=['name = "digits"'])]
    version: Annotated[Version, Field(examples=['version = "1.0.0"'])]
    targets: Annotated[
        list[FileText],
        accepting(lambda v: len(v) > 0, "at least one target", "`aotc targets list` shows them"),
        Field(examples=['targets = ["cpu-x86-64-v3"]']),
    ]
    enable_x64: bool = False
    weights: dict[
        Annotated[
            Name,
            accepting(
                lambda v: v != RESERVED_WEIGHTS,
                f"a name other than {RESERVED_WEIGHTS}",
                "the build keeps arrays under it that functions close over; choose another name",
            ),
        ],
        WeightsModel,
    ] = {}
    dimensions: dict[Identifier, DimensionModel] = {}
    mesh: Annotated[
        dict[Identifier, Size],
        accepting(
            lambda v: prod(v.values()) <= DEVICES_MAX,
            f"axes that make at most {DEVICES_MAX} devices",
            "the sizes of the axes are multiplied",
        ),
    ] = {}
    target: dict[str, TargetProfilesModel] = {}
    gates: GatesModel = GatesModel()
    entry_points: Annotated[
        dict[Identifier, EntryPointModel],
        accepting(lambda v: len(v) > 0, "at least one entry point", "add [entry_points.predict]"),
        Field(examples=["[entry_points.predict]"]),
    ]
