"""A program whose build writes some hundred kB: enough to fill a small disk in each stage."""

from tests.small_manifests import one_function

PROGRAM = "def f(x):\n    return x + 1\n"
MANIFEST = one_function("tiny", "[40000]", "fixtures.seed = 0")
