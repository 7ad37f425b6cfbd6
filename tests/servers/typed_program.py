"""A bundle whose entry points take and give every datatype that the protocol has."""

from pathlib import Path

from tests.e2e.small_programs import build_signed

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)

PROGRAM = """\
def same(x):
    return {"y": x, "z": x[:1]}


def rows(x, y):
    return x * 2 + y
"""

MANIFEST = """\
schema = 1
name = "types"
version = "1.0.0"
enable_x64 = true
targets = ["cpu-x86-64-v3"]

[dimensions.batch]
range = [1, 64]
profiles = [1, 4, 16]

[entry_points.rows]
function = "program:rows"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
inputs.y = { shape = ["batch", 4], dtype = "float32" }
out_of_profile.batch = "split"
"""

ECHO = """
[entry_points.{dtype}]
function = "program:same"
inputs.x = {{ shape = [3, 2], dtype = "{dtype}" }}
"""

RANGE = """
[entry_points.{dtype}.fixtures]
ranges = {{ x = [0, 9] }}
"""


def build_types(folder: Path) -> tuple[Path, Path]:
    """The bundle, and the policy that it loads with."""
    manifest = MANIFEST
    for dtype in DTYPES:
        manifest += ECHO.format(dtype=dtype) + (RANGE.format(dtype=dtype) if "int" in dtype else "")
    return build_signed(folder, "types", PROGRAM, manifest)
