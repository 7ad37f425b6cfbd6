"""Mutated bundles, by number: bytes of the archive, or values of signed documents."""

import json
import random
from typing import Any

from scripts.vectors import signer
from tests.hostile.archives import archive, entries_of
from tests.hostile.tampering import MemoryBundle, signed, take_apart

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 1.5, 2**31, 2**63, 2**64, "", "x", "a.b", "1.0", "1.1"),
    *("int8", "float32", "batch", "batch*2", "?", [], [1], ["x"], {}, {"x": 1}, "\n", "é"),
)


def mutated(bundle: MemoryBundle, number: int) -> tuple[bytes, str]:
    """Return a mutated archive, and what was changed."""
    chance = random.Random(number)
    if number % 2:
        return _changed_bytes(archive(entries_of(bundle)), chance)
    documents = take_apart(bundle)
    parts: dict[str, Any] = {
        "manifest": documents.manifest,
        "image": documents.image,
        "root": documents.root,
    }
    name = chance.choices([*parts], [8, 1, 1])[0]
    what = f"{name} {_changed_value(parts[name], chance)}"
    try:
        return archive(entries_of(signed(documents, signer("ours")))), what
    except (TypeError, ValueError, KeyError, AttributeError):
        return mutated(bundle, number + 1)  # no document of which digests can be put right


def _changed_bytes(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    place, kind = chance.randrange(len(data)), chance.choice(("flip", "cut", "repeat", "digit"))
    if kind == "flip":
        changed = bytes([data[place] ^ (1 << chance.randrange(8))])
        return data[:place] + changed + data[place + 1 :], f"{kind} at {place}"
    if kind == "digit":
        return data[:place] + chance.choice(b"0123456789").to_bytes() + data[place + 1 :], kind
    length = chance.choice((1, 16, 512, 1024))
    rest = data[place + length :] if kind == "cut" else data[place - place % 512 :]
    return data[:place] + rest, f"{kind} {length} at {place}"


def _changed_value(document: Any, chance: random.Random) -> str:
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(child, dict | list):
                collect(child)

    collect(document)
    owner, key = chance.choice(places)
    change = chance.choice(("value", "value", "copy", "delete", "add"))
    if change == "delete":
        del owner[key]
    elif change == "add" and isinstance(owner, dict):
        owner[f"{key}x"] = owner[key]
    elif change == "copy":
        other, place = chance.choice(places)
        owner[key] = json.loads(json.dumps(other[place]))
    else:
        owner[key] = chance.choice(VALUES)
    return f"{change} {key}"
