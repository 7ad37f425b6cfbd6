"""A user without a home."""

import pwd

import pytest


def nobody_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user whose number no name belongs to: the system knows of no home."""

    def nobody(number: int) -> object:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
