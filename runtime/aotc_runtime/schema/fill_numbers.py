"""Numbers that padding is filled with, as a bundle manifest writes them: "0", "nan", "-1e9"."""

from aotc_runtime.schema.bundle_manifest import DType

_BOOLEANS = {"False": False, "True": True, "0": False, "1": True}

_WITHOUT_INFINITY = frozenset({"float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"}) | {
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
}


def parse_fill(text: str, dtype: DType) -> complex:
    """Read a number that an array of this dtype can be filled with; a boolean for `bool`.

    Raises ValueError for text that is no number, and for a number that the dtype has no place for:
    a fraction or an infinity in an integer, an integer out of range. Floats round.
    """
    name = dtype.value
    if name == "bool":
        if text not in _BOOLEANS:
            raise ValueError(f"no boolean: {text!r}")
        return _BOOLEANS[text]
    if name.startswith(("int", "uint")):
        number = int(text)
        bits = int(name.removeprefix("u").removeprefix("int"))
        high = 2**bits if name.startswith("uint") else 2 ** (bits - 1)
        low = 0 if name.startswith("uint") else -high
        if not low <= number < high:
            raise ValueError(f"{number} is not between {low} and {high - 1}")
        return number
    if name.startswith("complex"):
        return complex(text)
    value = float(text)
    if name in _WITHOUT_INFINITY and value in (float("inf"), float("-inf")):
        raise ValueError(f"{name} has no infinity")
    return value
