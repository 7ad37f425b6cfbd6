"""The compile worker starts its process anew, and must not do its work twice for that."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_large_is_imported_before_the_process_starts_anew() -> None:
    program = "import sys; import aotc.backends.xla.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    imported = done.stdout.split()
    assert "aotc.backends.xla.worker" in imported
    assert not {"msgspec", "numpy", "jaxlib", "aotc.workers.child"} & set(imported)
