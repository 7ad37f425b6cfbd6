"""Prints the operators of the frontend, one in a line, for `make_operators.py`."""

from aotc.frontends.pytorch.torch_graph_checks import operators

if __name__ == "__main__":
    print(*sorted(name for names in operators().values() for name in names), sep="\n")
