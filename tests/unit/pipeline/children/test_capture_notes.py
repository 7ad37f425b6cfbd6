"""A file that a capture reads twice is the same both times."""

from aotc.base.errors import CaptureError
from aotc.pipeline.children.capture_worker import _note
from tests.refusals import error_of


def test_a_file_that_is_another_one_when_it_is_read_again_is_refused() -> None:
    files: dict[str, str] = {}
    _note(files, "x.npz", "sha256:1")
    _note(files, "x.npz", "sha256:1")
    _note(files, "y.npz", "sha256:2")
    refused = error_of(CaptureError, _note, files, "x.npz", "sha256:2")
    assert (refused.code, refused.findings[0].where) == ("AOTC-E840", "x.npz")
    assert files == {"x.npz": "sha256:1", "y.npz": "sha256:2"}
