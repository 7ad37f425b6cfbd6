"""Queues of requests that are batched: one for each model and the sizes they have to share.

A queue runs one call at a time; requests that arrive meanwhile are joined for the next. A call
waits for as many as there were last time, and no longer than it may. Used from the event loop
alone; calls run in threads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from aotc_runtime.base.errors import AotcError
from aotc_runtime.serving.call_metrics import Answer
from aotc_serve.batching.request_batching import (
    Chooser,
    Others,
    Plan,
    Sized,
    join_inputs,
    plan_of,
    split,
)
from aotc_serve.inference.protocol_tensors import Array
from aotc_serve.inference.served_models import Masks, Model
from aotc_serve.inference.server_metrics import Metrics

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from aotc_serve.inference.request_spans import Traces


async def in_thread[T](pool: Executor, work: Callable[..., T], *arguments: object) -> T:
    """Run work in a thread, and return its result.

    If the caller is cancelled, it goes on only when the thread has ended, because the thread uses
    what it holds; work that has not begun never runs.
    """
    running = pool.submit(work, *arguments)
    waiting = asyncio.wrap_future(running)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not running.cancel():
            await asyncio.wait([waiting])
        raise


class Call(Protocol):
    """Calls a model; `spans` are those of the served requests, if they are traced."""

    def __call__(
        self, model: Model, arrays: list[Array], spans: Sequence[Span], masks: Masks = None, /
    ) -> Answer:
        """Answer a request, alone or with others."""


def caller(traces: Traces | None) -> Call:
    """Return the function that calls models, with or without spans."""
    return traces.call if traces is not None else _call_untraced


def _call_untraced(
    model: Model, arrays: list[Array], _: Sequence[Span], masks: Masks = None, /
) -> Answer:
    return model.call(arrays, masks)


Finish = Callable[[Answer, int], Any]
"""In a thread: from an answer, and how many requests its call served, to what a client gets."""


Took = Callable[[float], None]
"""Is told, in a thread, how many seconds the call took that served a request."""


class WaitingRequest:
    """A request in a queue.

    `sized` is set once its queue is known. `is_called` says whether a call has begun, which uses
    its arrays until the future is done.
    """

    __slots__ = ("arrays", "finish", "future", "is_called", "received_at", "sized", "spans", "took")

    def __init__(
        self, arrays: list[Array], finish: Finish, took: Took, spans: Sequence[Span]
    ) -> None:
        self.arrays, self.finish, self.took, self.spans = arrays, finish, took, spans
        self.sized, self.received_at = Sized(1, (), ()), monotonic()
        self.is_called = False
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


OTHERS_MOST = 1024
"""Shapes of a model whose traffic is remembered."""


class BatchQueues:
    """All queues of a server; a request may wait `delay` seconds for others."""

    def __init__(self, delay: float, pool: Executor, metrics: Metrics, call: Call) -> None:
        self.delay, self.pool, self.metrics, self.call = delay, pool, metrics, call
        # Weak: a bundle that was replaced must not be kept by what is known of its models.
        self._plans: WeakKeyDictionary[Model, tuple[Plan, Chooser] | None] = WeakKeyDictionary()
        self._together: WeakKeyDictionary[Model, dict[Others, int]] = WeakKeyDictionary()
        self._queues: dict[tuple[Model, Others], _BatchQueue] = {}

    def plan(self, model: Model) -> tuple[Plan, Chooser] | None:
        """Return the batching of the model's requests, or None without proof or savings."""
        if model not in self._plans:
            plan = plan_of(model)
            if plan is not None and (chooser := Chooser(model, plan)).is_worth_it:
                self._plans[model] = plan, chooser
            else:
                self._plans[model] = None
        return self._plans[model]

    async def answer(self, model: Model, waiting: WaitingRequest) -> Any:
        """Wait for a batch, and return a request's part of its answer.

        Cancelled, it leaves the queue; if its call has begun, it waits for the end of that.
        Raises what the call raises.
        """
        found = self.plan(model)
        sized = found[1].measure(waiting.arrays) if found is not None else None
        if found is None or sized is None:
            return await in_thread(self.pool, self.alone, model, waiting)
        waiting.sized, others = sized, sized.others
        key = model, others
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _BatchQueue(self, model, *found, others)
        queue.put(waiting)
        try:
            return await asyncio.shield(waiting.future)
        except asyncio.CancelledError:
            if waiting.is_called:
                await asyncio.wait([waiting.future])
            waiting.future.cancel()
            raise

    def alone(self, model: Model, waiting: WaitingRequest) -> Any:
        """Return a request's own result, in a thread. Raises what the call raises."""
        started = perf_counter()
        found = waiting.finish(self.call(model, waiting.arrays, waiting.spans), 1)
        waiting.took(perf_counter() - started)
        return found

    def forget(self, model: Model, others: Others) -> None:
        """Drop an empty queue."""
        self._queues.pop((model, others), None)

    def expected_batch(self, model: Model, others: Others) -> int:
        """Return how many requests to expect at the same time; 0 where nothing is known yet."""
        return self._together.get(model, {}).get(others, 0)

    def remember_batch(self, model: Model, others: Others, requests: int) -> None:
        """Note how many requests there were when a call had ended."""
        known = self._together.setdefault(model, {})
        if others not in known and len(known) >= OTHERS_MOST:
            known.clear()
        known[others] = requests


class _BatchQueue:
    def __init__(
        self, queues: BatchQueues, model: Model, plan: Plan, chooser: Chooser, others: Others
    ) -> None:
        self._queues, self._model, self._plan = queues, model, plan
        self._chooser, self._others = chooser, others
        self._waiting: deque[WaitingRequest] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False

    def put(self, waiting: WaitingRequest) -> None:
        self._waiting.append(waiting)
        self._start_if_due()

    def _start_if_due(self) -> None:
        """Start a call if it is time; else try again when it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Whoever waits no longer is not served.
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()
        if self._is_running:
            return
        if not self._waiting:
            self._queues.forget(self._model, self._others)
            return
        left = self._waiting[0].received_at + self._queues.delay - monotonic()
        # When as many are here as were there last time, there is nobody to wait for.
        expected = self._queues.expected_batch(self._model, self._others)
        if (
            left <= 0
            or 0 < expected <= len(self._waiting)
            or sum(w.sized.rows for w in self._waiting) >= self._plan.largest
        ):
            self._start()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(left, self._start_if_due)

    def _start(self) -> None:
        live = [waiting for waiting in self._waiting if not waiting.future.done()]
        places = self._chooser.choose([waiting.sized for waiting in live])
        chosen = [live[place] for place in places]
        for waiting in chosen:
            waiting.is_called = True
        self._waiting = deque(waiting for waiting in live if not waiting.is_called)
        self._is_running = True
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._queues.pool, self._together, chosen)
        work.add_done_callback(lambda done: self._on_ended(chosen, done))

    def _on_ended(self, chosen: list[WaitingRequest], done: asyncio.Future[list[Any]]) -> None:
        self._is_running = False
        self._queues.metrics.count_batch(self._model.name, len(chosen))
        expected_batch = len(chosen) + len(self._waiting)
        self._queues.remember_batch(self._model, self._others, expected_batch)
        error = done.exception() if not done.cancelled() else asyncio.CancelledError()
        for number, waiting in enumerate(chosen):
            if waiting.future.done():
                continue
            if error is not None:
                waiting.future.set_exception(error)
                continue
            found = done.result()[number]
            if isinstance(found, Exception):
                waiting.future.set_exception(found)
            else:
                waiting.future.set_result(found)
        self._start_if_due()

    def _together(self, chosen: list[WaitingRequest]) -> list[Any]:
        """Return, in a thread, the result or the error of each request."""
        model, plan, started = self._model, self._plan, perf_counter()
        if len(chosen) == 1:
            return [self._each(chosen[0])]
        try:
            requests = [(waiting.sized, waiting.arrays) for waiting in chosen]
            arrays, masks = join_inputs(model, plan, requests)
            spans = [span for waiting in chosen for span in waiting.spans]
            answer = self._queues.call(model, arrays, spans, masks)
        except AotcError:
            # Whatever it is, each gets its own answer or its own error.
            return [self._each(waiting) for waiting in chosen]
        parts = split(model, plan, answer.result, [waiting.sized for waiting in chosen])
        found = [
            _finish(waiting, Answer(part, answer.path, answer.executable), len(chosen))
            for waiting, part in zip(chosen, parts, strict=True)
        ]
        for waiting in chosen:
            waiting.took(perf_counter() - started)
        return found

    def _each(self, waiting: WaitingRequest) -> Any:
        try:
            return self._queues.alone(self._model, waiting)
        except Exception as error:  # noqa: BLE001 - it is the answer of one request among others
            return error


def _finish(waiting: WaitingRequest, answer: Answer, count: int) -> Any:
    try:
        return waiting.finish(answer, count)
    except Exception as error:  # noqa: BLE001 - it is the answer of one request among others
        return error
