"""Files of a folder that cannot be mapped."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from aotc_runtime.system import layout_folder


@pytest.mark.parametrize(("why", "has_room"), [(errno.EACCES, False), (errno.ENOMEM, True)])
def test_only_where_no_page_can_be_mapped_there_are_too_many_files(
    why: int, has_room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the file itself is why: too large, or nobody's to read."""

    def fails(*_: object) -> memoryview:
        raise OSError(why, "no map")

    monkeypatch.setattr(layout_folder, "_maps_one_page", lambda: has_room)
    with pytest.raises(OSError, match="no map"):
        layout_folder._mapped(str(tmp_path / "file"), fails, "shown", 3)
