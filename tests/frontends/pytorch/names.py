"""Prints the operators of the frontend, one in a line, for `make_operators.py`."""

from aotc.frontends.pytorch.check import operators

if __name__ == "__main__":
    print(*operators(), sep="\n")
