"""Limits of requests of any protocol: number, memory, threads and time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.base.rendering import warn_of
from aotc_runtime.serving.call_metrics import Answer
from aotc_serve.batching.batch_queue import BatchQueues, WaitingRequest, caller, in_thread
from aotc_serve.batching.request_batching import reason_alone
from aotc_serve.inference.error_statuses import fault
from aotc_serve.inference.inference_requests import Outcome, Prepared, outcome
from aotc_serve.inference.request_memory import COSTS, Claim, Memory
from aotc_serve.inference.served_models import Model, models_of
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits
from aotc_serve.service.bundle_repository import Repository

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from aotc_serve.inference.request_spans import Traces

Read = Callable[[Model], Prepared]

QUICK_SECONDS = 0.001
"""A request that takes less is answered in the event loop itself: handing it to a thread and back
costs more than it holds others up.
"""
ALONE_SECONDS = 0.00025
"""Where requests are joined, those that take less than this are answered alone in the event loop:
waiting for others and two changes of thread cost more than what is saved of a call.
"""
QUICK_BYTES, QUICK_MOST = 2**21, 1024

HELD_SECONDS, BARRED_TIMES = 0.01, 100
"""A request that holds the event loop for longer keeps those for its model out of it, for so many
times as long: at most a hundredth of the time is lost to requests that only look like quick ones.
"""

type Shapes = tuple[tuple[int, ...], ...]

type Kind = tuple[str, str, int | Shapes]
"""Model, version and bytes, or shapes: requests that take about the same time."""


class Quick:
    """Kinds of requests that have been quick. Threads add to it, the event loop asks."""

    def __init__(self) -> None:
        self._seconds: dict[Kind, float] = {}
        # Until when, by model.
        self._barred: dict[str, float] = {}

    def holds(self, kind: Kind, limit: float = QUICK_SECONDS) -> bool:
        """Return whether such requests have taken less than this many seconds."""
        if self._seconds.get(kind, 1.0) >= limit:
            return False
        return not self._barred or self._barred.get(kind[0], 0.0) <= monotonic()

    def note_held(self, name: str, seconds: float) -> None:
        """Note for how long a request for a model has held the event loop, whatever came of it."""
        if seconds > HELD_SECONDS:
            self._barred[name] = monotonic() + BARRED_TIMES * seconds

    def took(self, kind: Kind, seconds: float) -> None:
        """One that took long counts for many that did not."""
        if isinstance(kind[2], int) and kind[2] > QUICK_BYTES:
            return
        known = self._seconds.get(kind)
        if known is None and len(self._seconds) >= QUICK_MOST:
            self._seconds.clear()
        self._seconds[kind] = seconds if known is None else 0.75 * known + 0.25 * seconds

    def took_in_batch(self, kind: Kind, seconds: float) -> None:
        """Record the time of a call that may have served others, too.

        It is longer than the time alone, which is measured now and then, but not for long calls.
        """
        known = self._seconds.get(kind)
        if known is None or seconds >= QUICK_SECONDS:
            self.took(kind, seconds)
        else:
            self._seconds[kind] = FORGOTTEN * known


FORGOTTEN = 0.98
"""Factor per call of the estimates about a kind that has not been quick."""


class Asked(Struct, frozen=True):
    """An inference request of `size` bytes.

    `claim` holds its memory and is closed when nothing uses it any more, which may be after the
    response. `spans` are the request's, if it is traced.
    """

    protocol: str
    name: str
    version: str
    size: int
    claim: Claim
    spans: Sequence[Span] = ()


class _NotQuickError(Exception):
    """A request is read, and none that is known to be quick."""


def _by_shapes(asked: Asked, prepared: Prepared) -> Kind:
    """Return the kind of a request by what it takes, which is longer than its bytes may tell."""
    return asked.name, asked.version, tuple([array.shape for array in prepared.arrays])


def within(limits: Limits, memory: Memory) -> Limits:
    """Return limits of which no request needs more than there can ever be."""
    most = memory.most_of_large
    return msgspec.structs.replace(
        limits, body=min(limits.body, most), json=min(limits.json, most // (COSTS.json + 2))
    )


class Service:
    """Answers requests with the bundles of a repository.

    Used from the event loop alone; what takes time runs in threads, where calls release Python's
    lock.
    """

    def __init__(
        self,
        repository: Repository,
        limits: Limits,
        metrics: Metrics,
        workers: int | None,
        delay: float | None = None,
        traces: Traces | None = None,
    ) -> None:
        """Make requests wait `delay` seconds for a batch; None disables batches."""
        self.repository, self.metrics = repository, metrics
        self.traces, self._call = traces, caller(traces)
        self.memory = Memory(limits.memory)
        self.limits = within(limits, self.memory)
        self.is_draining = False
        self._requests = 0
        self._in_flight: dict[str, int] = {}  # by the name that the client sent
        self.workers = workers or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="aotc-serve")
        self._queues: BatchQueues | None = None
        if delay is not None:
            self._queues = BatchQueues(delay, self._pool, metrics, self._call)
        self._quick, self._quick_to_read = Quick(), Quick()
        self._tasks: set[asyncio.Future[Any]] = set()
        metrics.watch(self._by_model, lambda: self.memory.used, repository.bundles)

    @property
    def is_ready(self) -> bool:
        """Return whether every bundle serves, and the server is not stopping."""
        return self.repository.is_ready and not self.is_draining

    @property
    def requests(self) -> int:
        """Return the number of requests in flight."""
        return self._requests

    async def infer[T](self, asked: Asked, read: Read, write: Callable[[Outcome], T]) -> T:
        """Answer an inference request.

        `read` makes arguments of the protocol's message, and `write` makes the response of the
        outcome; both run in a thread.

        Raises an AotcError, and nothing else.
        """
        if self.is_quick(asked.name, asked.version, asked.size):
            answered = self.answer_now(asked, read, write)
            if answered is not None:
                return answered
        started = perf_counter()
        try:
            self._enter(asked)
            work = self._waiting if self._is_batched(asked.name, asked.version) else self._alone
            answering = work(asked, read, write)
            try:
                async with asyncio.timeout(self.limits.call_seconds):
                    answer, known = await asyncio.shield(answering)
            except TimeoutError:
                expected = f"a response within {self.limits.call_seconds:g} s"
                where = f"model {asked.name[:100]}"
                raise refusal("AOTC-E765", where, "", expected=expected) from None
            finally:
                # Nobody waits any longer: what has not begun never does, what has begun ends.
                answering.cancel()
        except AotcError as error:
            self._count(asked, self._counter_name(asked.name), error.code, started)
            raise
        self._count(asked, known, "", started)
        return answer

    def _count(self, asked: Asked, model: str, code: str, started: float) -> None:
        self.metrics.request(model, asked.protocol, code, perf_counter() - started)

    def is_quick(self, name: str, version: str, size: int) -> bool:
        """Return whether such a request takes less time than passing it to a thread."""
        return self._holds_as_quick((name, version, size))

    def _holds_as_quick(self, kind: Kind) -> bool:
        if not self._quick.holds(kind):
            return False
        return self._quick.holds(kind, ALONE_SECONDS) or not self._is_batched(kind[0], kind[1])

    def _is_batched(self, name: str, version: str) -> bool:
        """Return whether requests for the model are batched."""
        if self._queues is None:
            return False
        try:
            with self.repository.serving(name, version) as model:
                return self._queues.plan(model) is not None
        except AotcError:
            return False

    def batching(self) -> dict[str, list[str]]:
        """Return models by the reason why their requests are not joined, "" where they are.

        Empty if no request waits for others.
        """
        reasons: dict[str, list[str]] = {}
        for bundle in self.repository.bundles() if self._queues is not None else ():
            for model in sorted({*models_of(bundle).values()}, key=lambda model: model.name):
                reasons.setdefault(reason_alone(model), []).append(model.name)
        return reasons

    def answer_now[T](self, asked: Asked, read: Read, write: Callable[[Outcome], T]) -> T | None:
        """Answer a request in the event loop itself, where it is quick; `infer` takes the rest.

        Return None for one whose arrays have other shapes than the quick ones of its size; it still
        holds its claim.
        """
        started, size = perf_counter(), asked.claim.total

        def read_quick(model: Model) -> Prepared:
            prepared = read(model)
            if not self._holds_as_quick(_by_shapes(asked, prepared)):
                raise _NotQuickError
            return prepared

        try:
            self._enter(asked)
            try:
                answer, known = self._answer(asked, read_quick, write)
            except _NotQuickError:
                self._leave(asked)
                asked.claim.resize(size)
                return None
            except BaseException:
                self._on_ended(asked)
                raise
            self._on_ended(asked)
        except AotcError as error:
            self._count(asked, self._counter_name(asked.name), error.code, started)
            raise
        finally:
            self._quick.note_held(asked.name, perf_counter() - started)
        self._count(asked, known, "", started)
        return answer

    def _enter(self, asked: Asked) -> None:
        """Begin a request, or release what it holds. Raises ServerError (AOTC-E766)."""
        if self._requests >= self.limits.requests:
            asked.claim.close()
            raise refusal("AOTC-E766", "server", f"{self._requests} requests in flight")
        self._requests += 1
        self._in_flight[asked.name] = self._in_flight.get(asked.name, 0) + 1

    def _alone[T](
        self, asked: Asked, read: Read, write: Callable[[Outcome], T]
    ) -> asyncio.Future[tuple[T, str]]:
        """Return the whole report in one thread."""
        loop = asyncio.get_running_loop()
        future = self._pool.submit(self._answer, asked, read, write)
        # When nobody waits any longer the thread may still run, and use what the request holds.
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._on_ended, asked))
        return asyncio.wrap_future(future)

    def _waiting[T](
        self, asked: Asked, read: Read, write: Callable[[Outcome], T]
    ) -> asyncio.Future[tuple[T, str]]:
        """Joined with others: read in a thread, answered from a queue."""
        task = asyncio.ensure_future(self._join(asked, read, write))
        task.add_done_callback(lambda _: self._on_ended(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _join[T](
        self, asked: Asked, read: Read, write: Callable[[Outcome], T]
    ) -> tuple[T, str]:
        assert self._queues is not None
        kind = asked.name, asked.version, asked.size

        def read_timed(model: Model) -> Prepared:
            started = perf_counter()
            prepared = read(model)
            self._quick_to_read.took(kind, perf_counter() - started)
            return prepared

        with self.repository.serving(asked.name, asked.version) as model:
            try:
                if self._quick_to_read.holds(kind, ALONE_SECONDS):
                    prepared = read_timed(model)
                else:
                    prepared = await in_thread(self._pool, read_timed, model)

                def finish(answer: Answer, requests: int) -> T:
                    return write(outcome(model, prepared, answer, requests=requests))

                def took(seconds: float) -> None:
                    self._quick.took_in_batch(kind, seconds)
                    self._quick.took_in_batch(_by_shapes(asked, prepared), seconds)

                waiting = WaitingRequest(prepared.arrays, finish, took, asked.spans)
                answered: T = await self._queues.answer(model, waiting)
            except AotcError:
                raise
            except Exception as error:  # noqa: BLE001 - told in the log, and to the client without its text
                warn_of(error)
                raise fault() from None
            return answered, model.name

    def _answer[T](self, asked: Asked, read: Read, write: Callable[[Outcome], T]) -> tuple[T, str]:
        """Return the response and the model's name, computed in a thread unless it is quick."""
        started = perf_counter()
        try:
            with self.repository.serving(asked.name, asked.version) as model:
                prepared = read(model)
                answer = self._call(model, prepared.arrays, asked.spans)
                more = {} if self._queues is None else {"requests": 1}
                answered = write(outcome(model, prepared, answer, **more)), model.name
                if more:
                    self.metrics.count_batch(model.name, 1)
            seconds = perf_counter() - started
            self._quick.took((asked.name, asked.version, asked.size), seconds)
            self._quick.took(_by_shapes(asked, prepared), seconds)
            return answered
        except (AotcError, _NotQuickError):
            raise
        except Exception as error:  # noqa: BLE001 - told in the log, and to the client without its text
            warn_of(error)
            raise fault() from None

    def _leave(self, asked: Asked) -> None:
        self._requests -= 1
        self._in_flight[asked.name] -= 1
        if not self._in_flight[asked.name]:
            del self._in_flight[asked.name]

    def _on_ended(self, asked: Asked) -> None:
        self._leave(asked)
        asked.claim.close()

    def _by_model(self) -> dict[str, int]:
        """Return the requests in flight of each model, under its own name; any thread asks."""
        found = {row.name: 0 for row in self.repository.index() if row.state == "READY"}
        for name, number in list(self._in_flight.items()):
            model = self._counter_name(name)
            found[model] = found.get(model, 0) + number
        return found

    def _counter_name(self, name: str) -> str:
        """Return the model's name for counters, which must not grow with what clients make up."""
        try:
            return self.repository.find(name).name
        except AotcError:
            return ""

    def close(self) -> None:
        """Run no more calls; those that run end as they would."""
        self._pool.shutdown(wait=False, cancel_futures=True)
