"""Arrays over several devices in jaxlib's terms, for bundles with a mesh.

`xla_client` passes the names of `jaxlib.xla_client`; these are private too, seen in 0.12.0.1:

    HloSharding: replicate, iota_tile, from_proto, tile_assignment_dimensions,
        tile_assignment_devices, replicate_on_last_tile_dim, is_replicated
    GSPMDSharding, SingleDeviceSharding, OpSharding.Type.REPLICATED, batched_device_put
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aotc_runtime.engines.device_features import ExecutableTiles, Tiles, align
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer
from aotc_runtime.schema.bundle_manifest import Mesh, Sharding
from aotc_runtime.schema.shard_layout import Piece, pieces

type Put = Callable[..., Buffer]
type Key = tuple[tuple[int, ...], tuple[Piece, ...]]

ALIGNMENT = 64
"""Bytes: XLA copies what begins elsewhere."""


class MeshPlacement:
    """The placement of arrays of one shape on a mesh.

    `key` is equal for equal placements; an executable has to state `tiles` for such an array.
    """

    __slots__ = ("_cuts", "_devices", "_put", "_shapes", "_singles", "key", "sharding", "tiles")

    def __init__(
        self,
        key: Key,
        shape: tuple[int, ...],
        devices: Sequence[Any],
        sharding: Any,
        singles: Sequence[Any],
        put: Put,
    ) -> None:
        whole = tuple((0, size) for size in shape)
        self.key = key
        self._cuts = [
            None if piece == whole else tuple(slice(*ends) for ends in piece) for piece in key[1]
        ]
        self.tiles: Tiles = tuple(
            ()
            if piece == whole and all(other == whole for other in key[1])
            else tuple(begin // max(1, end - begin) for begin, end in piece)
            for piece in key[1]
        )
        self._shapes = [tuple(end - begin for begin, end in piece) for piece in key[1]]
        self._devices, self.sharding = devices, sharding
        self._singles, self._put = singles, put

    def put(self, array: Array, aval: Aval, semantics: Any) -> Buffer:
        """Copy each device's piece to it."""
        parts = [array if cut is None else array[cut] for cut in self._cuts]
        return self._assemble(parts, aval, semantics)

    def share(self, array: Array, aval: Aval, semantics: Any) -> Buffer:
        """Use shards in place if they are aligned and contiguous.

        Devices that hold the same shard share its copy otherwise.
        """
        made: dict[Piece, Array] = {}
        parts = []
        for piece, cut in zip(self.key[1], self._cuts, strict=True):
            if piece not in made:
                made[piece] = array if cut is None else align(array[cut], ALIGNMENT)
            parts.append(made[piece])
        return self._assemble(parts, aval, semantics)

    def _assemble(self, parts: Sequence[Array], aval: Aval, semantics: Any) -> Buffer:
        """Return one array of the shards of all devices.

        Each is put by itself: jaxlib ends with `bad_function_call` if two shards are the same
        memory.
        """
        put = self._put
        held = []
        every = zip(parts, self._shapes, self._singles, self._devices, strict=True)
        for part, shape, single, device in every:
            flat = part if part.flags.c_contiguous else np.ascontiguousarray(part)
            piece = Aval(shape, aval.dtype)
            held.append(put(piece, single, [flat], [device], True, False, semantics, True))
        return put(aval, self.sharding, held, self._devices, True, False, semantics, True)


class Placements:
    """The placements on the devices of one client; `names` are those of `jaxlib.xla_client`."""

    def __init__(self, names: Any, devices: Sequence[Any], put: Put) -> None:
        self._names, self._devices, self._put = names, devices, put
        self._made: dict[Key, MeshPlacement] = {}

    def placement(self, mesh: Mesh, sharding: Sharding, shape: tuple[int, ...]) -> MeshPlacement:
        """Return the placement of arrays of this shape on a mesh."""
        key = (mesh.devices, pieces(mesh, sharding, shape))
        found = self._made.get(key)
        if found is None:
            names = self._names
            devices = [self._devices[number] for number in mesh.devices]
            over = names.GSPMDSharding(devices, _hlo_sharding(names, mesh, sharding, len(shape)))
            singles = [names.SingleDeviceSharding(device) for device in devices]
            found = self._made[key] = MeshPlacement(key, shape, devices, over, singles, self._put)
        return found


def _hlo_sharding(names: Any, mesh: Mesh, sharding: Sharding, rank: int) -> Any:
    """Return a sharding over the places of a mesh."""
    sizes = mesh.sizes
    counts = [prod(sizes[name] for name in axes) for axes in sharding]
    if all(count == 1 for count in counts):
        return names.HloSharding.replicate()
    assert len(counts) == rank, "verification compared them"
    order = list(sizes)
    used = [order.index(name) for axes in sharding for name in axes]
    rest = [index for index in range(len(order)) if index not in used]
    copies = prod(sizes.values()) // prod(counts)
    return names.HloSharding.iota_tile(
        [*counts, copies] if copies > 1 else counts,
        reshape_dims=list(sizes.values()),
        transpose_perm=[*used, *rest],
        subgroup_types=[names.OpSharding.Type.REPLICATED] if copies > 1 else [],
    )


def executable_tiles(names: Any, loaded: Any) -> ExecutableTiles:
    """Return the shardings of an executable's parameters and results, by jaxlib."""
    count, read = len(loaded.local_devices()), names.HloSharding.from_proto
    shardings = (loaded.get_parameter_shardings(), loaded.get_output_shardings())
    parameters, results = ([tiles(read(p), count) for p in some or ()] for some in shardings)
    return parameters, results


def tiles(sharding: Any, devices: int) -> Tiles | None:
    """Return the tiles of jaxlib's sharding by device, or None.

    None for anything but equal tiles and copies.
    """
    if sharding.is_replicated():
        return ((),) * devices
    counts = list(sharding.tile_assignment_dimensions())
    order = list(sharding.tile_assignment_devices())
    if sorted(order) != list(range(devices)) or prod(counts) != devices:
        return None
    if sharding.replicate_on_last_tile_dim():
        counts.pop()
    copies = devices // prod(counts)
    found: dict[int, tuple[int, ...]] = {}
    for place, number in enumerate(order):
        rest, at = place // copies, list[int]()
        for count in reversed(counts):
            rest, index = divmod(rest, count)
            at.append(index)
        found[number] = tuple(reversed(at))
    return tuple(found[number] for number in range(devices))
