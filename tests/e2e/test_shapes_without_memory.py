"""Calls outside of the profiles for which XLA itself finds no memory, in a process that has little.

The executables need 8 MiB for temporaries. A limit on the address space leaves 4 MiB: enough for
what Python allocates, of which an arena alone has 1 MiB.
"""

import json
from pathlib import Path

from small_programs import build_signed

from tests.conftest import manifest_of
from tests.running import printed

PROGRAM = """\
import jax.numpy as jnp

WIDE = 2**19


def step(state, x):
    wide = jnp.sin(x * jnp.arange(WIDE, dtype=jnp.float32)[None, :])
    return state + jnp.einsum("bw,bw->b", wide, wide[:, ::-1])[:, None]
"""

MANIFEST = manifest_of("""\
name = "wide"

[dimensions.batch]
range = [1, 8]
profiles = [4]

[entry_points.padded]
function = "program:step"
inputs.state = { shape = ["batch", 1], dtype = "float32" }
inputs.x = { shape = ["batch", 1], dtype = "float32" }
donate = ["state"]
out_of_profile.batch = "pad"
tolerance = { rtol = 1e-2, atol = 1e1 }

[entry_points.split]
function = "program:step"
inputs.state = { shape = ["batch", 1], dtype = "float32" }
inputs.x = { shape = ["batch", 1], dtype = "float32" }
donate = ["state"]
out_of_profile.batch = "split"
tolerance = { rtol = 1e-2, atol = 1e1 }
""")

CLIENT = """\
import json, re, resource, sys
from pathlib import Path
import numpy as np
import aotc_runtime

def limit(room):
    size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size + room if room else hard, hard))

found = {"imported": []}
with aotc_runtime.load(sys.argv[1], trust=sys.argv[2], threads=1) as bundle:
    for name, batch in (("padded", 3), ("split", 8)):
        call, x = bundle[name], np.full((batch, 1), 0.5, np.float32)
        state = call.on_device(np.zeros((batch, 1), np.float32), x)
        wanted = np.asarray(state).tolist()
        modules = {*sys.modules}
        limit(2**22)
        try:
            call(state, x)
            code = "served"
        except aotc_runtime.AotcError as error:
            code = error.code
        limit(0)
        found["imported"] += {*sys.modules} - modules
        kept = np.asarray(state).tolist() == wanted
        again = np.asarray(call(state, x))
        served = bool(np.allclose(again, 2 * np.array(wanted), rtol=1e-3))
        found[name] = [code, kept, served, state.is_deleted]
print(json.dumps(found))
"""


def test_call_without_memory_returns_donated_arrays(tmp_path: Path) -> None:
    bundle, policy = build_signed(tmp_path, "wide", PROGRAM, MANIFEST)
    # What was allocated for an earlier call goes back to the system.
    freeing = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    found = json.loads(printed(CLIENT, bundle, policy, **freeing))
    imported = {*found["imported"]}
    assert imported <= {"aotc_runtime.base.codes"}, "others may find no memory, and hide the error"
    for path in ("padded", "split"):
        code, kept, served, used_up = found[path]
        assert code == "AOTC-E755", path
        assert kept, "the donated state is as it was"
        assert served and used_up, "with memory the same call succeeds"
