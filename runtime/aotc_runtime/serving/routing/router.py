"""Chooses how to serve a call whose sizes no profile has exactly: a pure function of the sizes.

Padded: to the cheapest profile that covers it. Split: along one dimension, into parts that profiles
serve, as many of the largest as leave a rest that the others add up to, and so on.
"""

from collections.abc import Collection, Mapping, Sequence
from math import prod

from msgspec import Struct

from aotc_runtime.schema.bundle_manifest import OutOfProfilePolicy, ProfileRecord

Sizes = Mapping[str, int]

PARTS_MAX = 1024
"""At most so many parts for one call; to need more means that the profiles are badly chosen."""

SUMS_MAX = 2**24
"""Largest sum that is looked at for a split, one bit each; profiles up to 4096 never need more."""


class Direct(Struct, frozen=True):
    """One call of the profile with this number, padded where its sizes are larger."""

    profile: int
    sizes: dict[str, int]


class Parts(Struct, frozen=True):
    """Several calls, whose pieces of `dimension` follow each other."""

    dimension: str
    calls: tuple[Direct, ...]


Route = Direct | Parts


class Router:
    """Chooses a route; `order` has the profiles' numbers in the order in which they are tried."""

    def __init__(
        self,
        profiles: Sequence[Sizes],
        order: Sequence[int],
        policies: Mapping[str, OutOfProfilePolicy],
    ) -> None:
        self._profiles = [dict(sizes) for sizes in profiles]
        self._order = order
        self._ranged = {name for name, p in policies.items() if p is OutOfProfilePolicy.RANGE}
        self._padded = {name for name, p in policies.items() if p is OutOfProfilePolicy.PAD}
        self.split = sorted(name for name, p in policies.items() if p is OutOfProfilePolicy.SPLIT)

    def choose(self, sizes: Sizes) -> Route | None:
        """Return the route of a call with these sizes; None if there is none."""
        profile = self._covering(sizes)
        if profile is not None:
            return Direct(profile, dict(sizes))
        for dimension in self.split:
            parts = self._parts(sizes, dimension)
            if parts is not None:
                return Parts(dimension, parts)
        return None

    def pieces(self, sizes: Sizes, dimension: str) -> dict[int, int]:
        """Return the possible sizes of such a call in a dimension, each with its profile."""
        found = {}
        for size in {profile[dimension] for profile in self._profiles}:
            profile = self._covering({**sizes, dimension: size})
            if profile is not None:
                found[size] = profile
        return found

    def _covering(self, sizes: Sizes) -> int | None:
        if sizes in self._profiles:
            return self._profiles.index(sizes)  # type: ignore[arg-type]
        return next((index for index in self._order if self._covers(index, sizes)), None)

    def _covers(self, index: int, sizes: Sizes) -> bool:
        return all(
            size >= sizes[name] if name in self._padded else size == sizes[name]
            for name, size in self._profiles[index].items()
            if name not in self._ranged
        )

    def _parts(self, sizes: Sizes, dimension: str) -> tuple[Direct, ...] | None:
        pieces = self.pieces(sizes, dimension)
        parts = add_up(sizes[dimension], pieces)
        if parts is None:
            return None
        return tuple(Direct(pieces[part], {**sizes, dimension: part}) for part in parts)


def add_up(total: int, pieces: Collection[int]) -> list[int] | None:
    """Return pieces with this sum, as many of the largest as possible.

    None if no combination exists, or it has more than PARTS_MAX pieces.
    """
    sizes = sorted(pieces, reverse=True)
    if not sizes or total > sizes[0] * PARTS_MAX:
        return None
    # A rest holds fewer of the smaller pieces than the largest has units: among that many, some
    # would add up to a multiple of the largest.
    smaller = sizes[1] if len(sizes) > 1 else 0
    bulk = max(0, total // sizes[0] - smaller - 1)
    rest = total - bulk * sizes[0]
    if rest > SUMS_MAX:
        return None
    sums = _sums_of_tails(sizes, rest)
    if not sums[0] >> rest & 1:
        return None
    parts = [sizes[0]] * bulk
    for place, size in enumerate(sizes):
        count = rest // size
        while not sums[place + 1] >> (rest - count * size) & 1:
            count -= 1
        parts += [size] * count
        rest -= count * size
    return parts if len(parts) <= PARTS_MAX else None


def _sums_of_tails(sizes: Sequence[int], limit: int) -> list[int]:
    """Return, as bits, the sums up to the limit that the sizes from each index on can make."""
    mask = (1 << (limit + 1)) - 1
    sums = [1]
    for size in reversed(sizes):
        bits, step = sums[-1], size
        while step <= limit:
            bits |= bits << step & mask
            step *= 2
        sums.append(bits)
    return sums[::-1]


def router_of(
    profiles: Sequence[ProfileRecord], policies: Mapping[str, OutOfProfilePolicy]
) -> Router:
    """Return a router over a bundle's profiles, tried in the order of their cost."""
    return Router([profile.sizes for profile in profiles], by_cost(profiles), policies)


def by_cost(profiles: Sequence[ProfileRecord]) -> list[int]:
    """Return the numbers of these profiles, the cheapest first."""
    return sorted(range(len(profiles)), key=lambda index: _cost(profiles[index]))


def _cost(profile: ProfileRecord) -> tuple[int, int, int, list[tuple[str, int]]]:
    elements = sum(prod(shape) for shape in profile.input_shapes)
    cost = profile.cost
    return cost.flops, cost.bytes_accessed, elements, sorted(profile.sizes.items())
