"""Hot-swap a loaded bundle without dropping calls."""

from __future__ import annotations

import threading
from typing import Any

from aotc_runtime.base.errors import refusal
from aotc_runtime.serving.loaded_bundle import LoadedBundle, State


class _InFlight:
    """A bundle, and how many calls are running in it."""

    __slots__ = ("bundle", "calls")

    def __init__(self, bundle: LoadedBundle) -> None:
        self.bundle = bundle
        self.calls = 0


class BundleSlot:
    """Serves a bundle that can be replaced while calls go on.

    `slot["predict"](image)` runs in the bundle that is there when the call begins. `replace` puts
    the next one in its place at once, waits for the calls that still run in the old one, and
    closes it, which gives its memory back.
    """

    def __init__(self, bundle: LoadedBundle) -> None:
        """Raises ShapeError (AOTC-E633) for anything but a bundle that is ready."""
        self._current = _InFlight(_ready(bundle))
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def __repr__(self) -> str:
        return f"<slot with {self.bundle!r}>"

    @property
    def bundle(self) -> LoadedBundle:
        """The bundle that new calls run in."""
        return self._current.bundle

    def __getitem__(self, name: str) -> SlotEntryPoint:
        """Return an entry point that each call looks up anew. Raises ShapeError (AOTC-E602)."""
        self.bundle[name]
        return SlotEntryPoint(self, name)

    def replace(self, bundle: LoadedBundle, timeout: float | None = None) -> None:
        """Serve this bundle from now on, and close the old one when its last call has ended.

        Waits at most `timeout` seconds. Raises TimeoutError if calls are still running then; the
        new bundle serves, and the old one stays open. Raises ShapeError (AOTC-E633) for anything
        but a bundle that is ready; the old one then serves on.
        """
        _ready(bundle)
        with self._changed:
            old, self._current = self._current, _InFlight(bundle)
            if not self._changed.wait_for(lambda: old.calls == 0, timeout):
                raise TimeoutError(f"{old.calls} calls of {old.bundle!r} still run")
        if old.bundle is not bundle:
            old.bundle.close()

    def close(self, timeout: float | None = None) -> None:
        """Close the bundle when its last call has ended; calls raise ShapeError (AOTC-E633) then.

        After `timeout` seconds, raises TimeoutError and leaves it open.
        """
        with self._changed:
            running = self._current
            if not self._changed.wait_for(lambda: running.calls == 0, timeout):
                raise TimeoutError(f"{running.calls} calls of {running.bundle!r} still run")
        running.bundle.close()

    def calling(self) -> Calling:
        """Return a context manager of the current bundle, which stays open until it exits."""
        return Calling(self)

    def enter(self) -> _InFlight:
        """Begin a call, which ends with `leave`."""
        with self._lock:
            running = self._current
            running.calls += 1
        return running

    def leave(self, running: _InFlight) -> None:
        """End a call."""
        with self._lock:
            running.calls -= 1
            if not running.calls:
                self._changed.notify_all()


class Calling:
    """One call in the bundle of a slot.

    This is a class, since a context manager from a generator costs several times as much for each
    request.
    """

    __slots__ = ("_running", "_slot")

    def __init__(self, slot: BundleSlot) -> None:
        self._slot = slot

    def __enter__(self) -> LoadedBundle:
        self._running = self._slot.enter()
        return self._running.bundle

    def __exit__(self, *_: object) -> None:
        self._slot.leave(self._running)


def _ready(bundle: object) -> LoadedBundle:
    if isinstance(bundle, LoadedBundle) and bundle.state is State.READY:
        return bundle
    if isinstance(bundle, LoadedBundle):
        raise refusal("AOTC-E633", "BundleSlot", repr(bundle))
    hint = "pass the bundle that `load` returns"
    raise refusal("AOTC-E633", "BundleSlot", repr(bundle), cause="bundle-is-not-ready", hint=hint)


class SlotEntryPoint:
    """An entry point of whichever bundle the slot holds, called as a `LoadedEntryPoint` is."""

    __slots__ = ("_slot", "name")

    def __init__(self, slot: BundleSlot, name: str) -> None:
        self._slot = slot
        self.name = name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it as a `LoadedEntryPoint`."""
        with self._slot.calling() as bundle:
            return bundle[self.name](*args, **kwargs)

    def on_device(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it, with results that stay on the device (`LoadedEntryPoint.on_device`)."""
        with self._slot.calling() as bundle:
            return bundle[self.name].on_device(*args, **kwargs)

    async def call_async(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it without holding up the event loop (`LoadedEntryPoint.call_async`)."""
        import asyncio

        return await asyncio.to_thread(self, *args, **kwargs)
