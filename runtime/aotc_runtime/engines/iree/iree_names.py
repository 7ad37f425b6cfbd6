"""Names within modules compiled with IREE, for its compiler and its engine."""

IREE = "iree"
"""The engine, and the platform of processors that it runs on."""

FUNCTION = "run"
"""The one public function, of the inputs that a call passes, in order."""

SCOPE = "weights"
"""The scope of the module's parameters; each is named by its place among the arguments."""

DRIVER = "aotc.driver"
"""The function's reflection says which of IREE's drivers suits it."""

LOCAL_SYNC = "local-sync"
LOCAL_TASK = "local-task"
DRIVERS = (LOCAL_SYNC, LOCAL_TASK)
"""IREE's drivers for processors: in the calling thread, or by a pool of threads."""

RUNTIME = "iree-base-runtime"
"""The distribution that runs executables."""
