"""Names of values in the graphs that aotc makes, for compilers and engines."""

OPSET = 26
"""The opset of ONNX's own operators in every graph; BitCast came with it."""


def weight(place: int) -> str:
    """Return a weight, by its place among the executable's arguments."""
    return f"w{place}"


def input_name(place: int) -> str:
    """Return a parameter that calls pass, by the same."""
    return f"p{place}"


def result(place: int) -> str:
    """Return a result, by its place."""
    return f"r{place}"
