"""The line of a model's source in the stack trace that PyTorch writes beside each operation."""

import re

_FRAME = re.compile(r'File "([^"]*)", line (\d+), in [^\n]*\n?([^\n]*)')
LONGEST = 200


def own_line(trace: str) -> str:
    """Return the innermost line outside of PyTorch, with two steps of its path; "" if none."""
    frames = _FRAME.findall(trace)
    own = [frame for frame in frames if "/torch/" not in f"/{frame[0]}"] or frames
    if not own:
        return ""
    path, number, code = own[-1]
    steps = path.replace("\\", "/").split("/")
    line = f"{'/'.join(steps[-2:])}:{number}: {code.strip()}"[:LONGEST]
    return line if line.isprintable() else ""
