"""Names of TPU topologies, "v5e:2x4", and what they stand for; libtpu is not asked.

A name is a generation and how many chips a slice has along each axis. libtpu also takes names that
mean the same slice ("V5E:2x4", "v5e=2x4", "v5e:2x4x1"); here there is one name for each.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

_NAME = re.compile(r"\A([a-z0-9]+):([1-9][0-9]{0,2}(?:x[1-9][0-9]{0,2})*)\Z")

LISTED = "docs/reference/targets.md lists topologies"

HOST_SHAPE = (2, 2)
"""The chips that each host has of a slice with several, along the first two axes."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of TPUs.

    `kind` is the name of a device, as libtpu states it. `hosts` are the shapes of slices whose
    chips are all on one host. `cores` is how many devices a chip appears as. `configuration` is
    libtpu's name of how a chip's cores work together; "" for the usual one.
    """

    kind: str
    hosts: tuple[tuple[int, ...], ...]
    cores: int = 1
    configuration: str = ""

    @property
    def axes(self) -> int:
        """The number of axes of its topologies."""
        return len(self.hosts[0])


_CUBE = ((1, 1, 1), (2, 2, 1))
_FLAT = ((1, 1), (2, 2), (2, 4))

GENERATIONS: Mapping[str, Generation] = {
    "v2": Generation("TPU v2", ((1, 1), (2, 2)), cores=2),
    "v3": Generation("TPU v3", ((1, 1), (2, 2)), cores=2),
    # libtpu otherwise describes a v4 chip as two devices, while machines show one.
    "v4": Generation("TPU v4", _CUBE, configuration="megacore"),
    "v5e": Generation("TPU v5 lite", _FLAT),
    "v5p": Generation("TPU v5", _CUBE),
    "v6e": Generation("TPU v6 lite", _FLAT),
    "tpu7x": Generation("TPU7x", _CUBE, cores=2),
}
"""Generations of TPUs with the topologies of libtpu 0.0.50 and the sizes of Google's machines."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A slice. shape: chips along each axis.  hosts: machines that it is spread over."""

    generation: Generation
    shape: tuple[int, ...]
    hosts: int

    @property
    def devices(self) -> int:
        """The number of devices."""
        return prod(self.shape) * self.generation.cores

    @property
    def options(self) -> dict[str, str | list[int]]:
        """Return the options of libtpu that describe the topology, beside its name."""
        # Without, a slice of 2x4 would be described as that of two hosts.
        bounds = self.shape if self.hosts == 1 else HOST_SHAPE
        options: dict[str, str | list[int]] = {"chips_per_host_bounds": [*bounds, 1, 1][:3]}
        if self.generation.configuration:
            options["chip_config_name"] = self.generation.configuration
        return options


class UnknownTopologyError(ValueError):
    """A name that stands for no slice. expected, hint: as in a Finding."""

    def __init__(self, expected: str, hint: str) -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


def parse(name: str) -> Topology:
    """Return the slice that a name stands for. Raises UnknownTopologyError."""
    match = _NAME.match(name)
    if match is None:
        known = ", ".join(GENERATIONS)
        raise UnknownTopologyError(
            f'a generation ({known}) and the chips along each axis, such as "v5e:2x4"', LISTED
        )
    generation = GENERATIONS.get(match[1])
    if generation is None:
        expected = f"a TPU generation: {', '.join(GENERATIONS)}"
        raise UnknownTopologyError(expected, LISTED)
    shape = tuple(map(int, match[2].split("x")))
    if len(shape) != generation.axes:
        example = "x".join(map(str, generation.hosts[-1]))
        raise UnknownTopologyError(
            f"chips along {generation.axes} axes for {match[1]}", f'such as "{match[1]}:{example}"'
        )
    if shape in generation.hosts:
        return Topology(generation, shape, hosts=1)
    if any(size % bound for size, bound in zip(shape, HOST_SHAPE, strict=False)):
        single = ", ".join("x".join(map(str, host)) for host in generation.hosts)
        raise UnknownTopologyError(
            f"chips of one host ({single}), or of whole hosts with 2x2 each",
            "make the first two numbers even",
        )
    return Topology(generation, shape, hosts=prod(shape) // prod(HOST_SHAPE))
