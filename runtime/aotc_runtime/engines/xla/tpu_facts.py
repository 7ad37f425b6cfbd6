"""TPUs of this host, as the system lists them: asked only for bundles that need some.

From the PCI devices below /sys, by the numbers in jax/_src/hardware_utils.py (jax 0.12.0.1). Only
libtpu knows more, and a process that starts it has the chips to itself.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from aotc_runtime.engines.xla.xla_accelerator import version_of
from aotc_runtime.schema.host_facts import Accelerator

PLATFORM = "tpu"
PLUGIN = "libtpu"

PCI_DEVICES = Path("/sys/bus/pci/devices")
GOOGLE = "0x1ae0"

VISIBLE = ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")
"""Where libtpu reads which of the chips a process may use."""

GIB = 2**30


class Chip(Struct, frozen=True):
    """A TPU chip.

    Attributes:
        kind: of its devices, as libtpu states it.
        devices: number of its devices.
        memory_bytes: of each, by Google's product pages; the free part is unknown.
    """

    kind: str
    devices: int
    memory_bytes: int


CHIPS: Mapping[str, Chip] = {
    "0x005e": Chip("TPU v4", 1, 32 * GIB),
    "0x0062": Chip("TPU v5", 1, 95 * GIB),
    "0x0063": Chip("TPU v5 lite", 1, 16 * GIB),
    "0x006f": Chip("TPU v6 lite", 1, 32 * GIB),
    "0x0076": Chip("TPU7x", 2, 96 * GIB),
}
"""Chips by PCI device number."""


def detect() -> Accelerator:
    """Return the TPUs that this process may use."""
    return facts(read_chips(PCI_DEVICES), version_of(PLUGIN), os.environ)


def facts(chips: list[Chip], plugin: str, environment: Mapping[str, str]) -> Accelerator:
    """Return the host's TPUs; the `environment` may name some of the chips."""
    named = next((environment[name] for name in VISIBLE if environment.get(name)), None)
    visible = chips if named is None else chips[: len(named.split(","))]
    return Accelerator(
        platform=PLATFORM,
        devices=sum(chip.devices for chip in visible),
        kinds=tuple(sorted({chip.kind for chip in visible})),
        memory_bytes=min((chip.memory_bytes for chip in visible), default=0),
        plugin=plugin,
    )


def read_chips(folder: Path) -> list[Chip]:
    """Return the chips among the PCI devices in a folder.

    Unknown numbers are left out, and so are all functions of a device but the first.
    """
    found = []
    for device in sorted(folder.glob("*.0")):
        try:
            vendor = (device / "vendor").read_text("utf-8").strip()
            number = (device / "device").read_text("utf-8").strip()
        except OSError:
            continue
        if vendor == GOOGLE and number in CHIPS:
            found.append(CHIPS[number])
    return found
