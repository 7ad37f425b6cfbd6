"""`python -m tests.hostile.mutation TEXT…`: list the checks that nothing misses once they are gone.

TEXT: for modules alone whose path holds one of these; all without it.
"""

from __future__ import annotations

import sys

from .running import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
