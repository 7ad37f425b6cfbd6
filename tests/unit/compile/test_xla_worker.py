"""The compile worker starts its process anew, and must not do its work twice for that."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_large_is_imported_before_the_process_starts_anew() -> None:
    program = "import sys; import aotc.compile.xla.xla_worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    imported = done.stdout.split()
    assert "aotc.compile.xla.xla_worker" in imported
    assert not {"msgspec", "numpy", "jaxlib", "aotc.base.workers.worker_child"} & set(imported)
