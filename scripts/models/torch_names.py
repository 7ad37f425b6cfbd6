"""Prints the operators of the frontend, one in a line, for `torch_operators.py`."""

from aotc.frontends.pytorch.operators import OPERATORS
from aotc.frontends.pytorch.operators.torch_scalars import FUNCTIONS
from aotc.frontends.pytorch.torch_graph_checks import CONDITION, LOOP

KNOWN = {*OPERATORS, *FUNCTIONS, CONDITION, LOOP}

if __name__ == "__main__":
    print(*sorted(KNOWN), sep="\n")
