"""A headless Chromium that reaches nobody."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def skip(reason: str) -> None:
    """But under `make test-browser`, which installs everything, what cannot run has failed."""
    if os.environ.get("AOTC_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if find_spec("playwright") is None:
        skip("needs the extra browser, playwright: make test-browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        if found is None and not Path(started.chromium.executable_path).exists():
            skip("needs Chromium: make test-browser, or apt-get install chromium-headless-shell")
        # Containers give a browser no sandbox of its own; what it opens is a file of ours.
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
