"""Regular files of the user, opened so that a pipe or a device in their place is an error."""

import os
from io import BufferedReader

from aotc_runtime.system.bundle_files import open_descriptor, require_regular


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading. Raises OSError; at once, also for a device or a pipe."""
    descriptor = open_descriptor(path)
    try:
        require_regular(os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
