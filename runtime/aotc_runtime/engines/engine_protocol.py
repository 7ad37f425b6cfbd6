"""What the runtime needs of an engine: the library that runs the executables of a bundle.

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

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.host_facts import Accelerator, Machine


class Engine(Protocol):
    """What an entry point of the group `aotc_runtime.engines` names: a module or an object."""

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms that `aotc_runtime host` asks about; facts are also asked for others by
        name.
        """

    def machine(self, threads: int | None, devices: int | None) -> Machine | None:
        """This host's processor, where the engine's compiler decides what is a feature of it; the
        engine may be started for that. None leaves it to the system, as most engines do.

        threads: of its pool, None for one per processor.  devices: how many to make of the
        processor, None if nobody says; at most `host_facts.PROCESSOR_DEVICES_MAX`.
        """

    def facts(self, platform: str) -> Accelerator | None:
        """What of a platform this host has: how many devices, of which kinds, and the version of
        what runs the executables. Without devices where there are none; None for a platform that
        the engine does not know. Starts no threads and allocates nothing on a device.
        """

    def start(self, platform: str, threads: int | None, devices: int | None) -> Device:
        """The devices of a platform: started, or those that run in this process already, which are
        always the same object.

        threads: of its pool, None for one per processor.  devices: how many to make of a processor,
        None if nobody says. Raises BackendError (AOTC-E758) where the host has none that the engine
        can use, and ResourceError (AOTC-E552) where it runs with another number of threads.
        """
