import os
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.pipeline.scratch_folder import scratch_folder


def test_unreadable_folder_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a mask of modes such as 0777 makes it; root may read everything."""
    opened = os.open

    def forbidden(path: os.PathLike[str] | str, *options: int) -> int:
        if "aotc-build-" in os.fspath(path):
            raise PermissionError(13, "Permission denied")
        return opened(path, *options)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "open", forbidden)
    with pytest.raises(UsageError) as caught, scratch_folder():
        pass
    assert caught.value.code == "AOTC-E003"
    assert list(tmp_path.iterdir()) == []
