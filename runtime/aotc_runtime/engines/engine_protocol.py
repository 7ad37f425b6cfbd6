"""The protocol of engines: libraries that run the executables of a bundle.

A distribution brings an engine by an entry point of the group `aotc_runtime.engines`, which names
an `Engine` and has the engine's name. A target says which engine it needs
(`schema.manifest.engine_name`). In the order in which a load uses an engine:

    Engine.machine      what it calls this host's processor and its features
    Engine.facts        what of a platform this host has; starts nothing
    Engine.start        devices of a platform, one `Device` per process and platform
    Device.deserialize  all executables of a target, from verified bytes
    Device.share        each weight, in place in the mapped file if that is possible
    Device.direct       for each executable, the fastest way to call it, if there is one
    Device.put, execute, to_numpy
                        fixtures, then calls
    Device.forget_released
                        when a bundle was closed; executables and buffers that nothing refers to any
                        more give their memory back by themselves

Called from several threads at once, all but `Engine.machine`, `start` and `deserialize`. What an
engine raises while an executable runs is an instance of `Device.error`, which the runtime tells as
AOTC-E755. docs/reference/targets.md shows a whole engine.
"""

from collections.abc import Sequence
from typing import Protocol

from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.host_facts import Accelerator, Machine


class Engine(Protocol):
    """The object of an entry point of `aotc_runtime.engines`: a module or an instance."""

    @property
    def platforms(self) -> Sequence[str]:
        """Return the platforms that `aotc-runtime host-info` lists.

        Facts are also requested for others by name.
        """

    def machine(self, threads: int | None, devices: int | None) -> Machine | None:
        """Return this host's processor, if the engine's compiler defines its features.

        The engine may be started for that. None leaves it to the system, as most engines do.
        `threads` is the size of its pool, None for one per processor. `devices` is how many to make
        of the processor, or None; at most `host_facts.PROCESSOR_DEVICES_MAX`.
        """

    def facts(self, platform: str) -> Accelerator | None:
        """Return what this host has of a platform, or None for an unknown platform.

        This is the number of devices, which may be none, their names, and the version of what runs
        executables. It starts no threads and allocates nothing on a device.
        """

    def start(self, platform: str, threads: int | None, devices: int | None) -> Device:
        """Start the devices of a platform, or return the running ones.

        The same object is returned each time. `threads` is the size of its pool, None for one per
        processor; `devices` is how many to make of a processor, or None. Raises BackendError
        (AOTC-E758) if the host has none that the engine can use, and ResourceError (AOTC-E552) if
        it runs with another number of threads.
        """
