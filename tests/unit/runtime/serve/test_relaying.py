"""Requests that a process takes and others answer, with replicas that end before they do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from aotc_runtime.base.errors import AotcError
from aotc_serve.inference.server_options import Limits
from aotc_serve.ray import request_relay
from aotc_serve.ray.request_relay import Answered, Carried, LostError, Relay, UnavailableError

LIMITS = Limits(body=100, memory=400, requests=2, call_seconds=30)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_relay, "PAUSE_SECONDS", 0)


class Replicas:
    """Give what they were told to give, one after the other; the last of it again and again."""

    def __init__(self, *gives: Answered | Exception) -> None:
        self._gives = list(gives)
        self.asked: list[Carried] = []

    async def ask(self, carried: Carried) -> Answered:
        self.asked.append(carried)
        given = self._gives.pop(0) if len(self._gives) > 1 else self._gives[0]
        if isinstance(given, Exception):
            raise given
        return given


def ask(
    replicas: Replicas, method: str = "POST", path: str = "/v2/models/m/infer", **more: Any
) -> Response:
    relay = Relay(replicas.ask, more.pop("limits", LIMITS))
    return asyncio.run(relay.respond(request(method, path, **more)))


def request(
    method: str,
    path: str,
    body: bytes = b"{}",
    prefix: str = "",
    receive: Callable[[], Any] | None = None,
) -> Request:
    async def whole() -> Any:
        return {"type": "http.request", "body": body}

    headers = [(b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": method, "path": path, "root_path": prefix}
    return Request({**scope, "headers": headers, "query_string": b""}, receive or whole)


GOOD = Answered(200, ((b"content-length", b"4"), (b"content-type", b"text/x")), b"good")


def code_of(response: Response) -> tuple[int, str]:
    return response.status_code, json.loads(bytes(response.body))["code"]


def test_an_answer_comes_through_as_it_is() -> None:
    for status in (200, 400, 404, 503):
        response = ask(Replicas(Answered(status, GOOD.headers, b"good")))
        assert (response.status_code, response.body) == (status, b"good")
        assert tuple(response.raw_headers) == GOOD.headers


def test_the_prefix_of_the_deployment_is_no_part_of_the_route() -> None:
    replicas = Replicas(GOOD)
    ask(replicas, path="/digits/v2", prefix="/digits", method="GET")
    ask(replicas, path="/v2", prefix="/", method="GET")
    assert [carried.path for carried in replicas.asked] == ["/v2", "/v2"]


def test_what_was_lost_is_asked_again() -> None:
    replicas = Replicas(LostError(), LostError(), GOOD)
    assert ask(replicas, body=b"the same").body == b"good"
    assert [carried.body for carried in replicas.asked] == [b"the same"] * 3


def test_a_request_that_ends_every_replica_does_not_end_all_of_them() -> None:
    replicas = Replicas(LostError())
    response = ask(replicas)
    assert code_of(response) == (503, "AOTC-E784") and response.headers["retry-after"] == "1"
    assert len(replicas.asked) == request_relay.TRIES


def test_a_refusal_and_a_fault_are_not_asked_again() -> None:
    for wrong, told in (
        (UnavailableError("too many"), (503, "AOTC-E784")),
        (RuntimeError("secret"), (500, "AOTC-E781")),
    ):
        replicas = Replicas(wrong)
        response = ask(replicas)
        assert code_of(response) == told and b"secret" not in response.body
        assert len(replicas.asked) == 1


def test_nobody_waits_longer_than_a_call_may_take() -> None:
    class Slow(Replicas):
        async def ask(self, carried: Carried) -> Answered:
            await asyncio.sleep(3600)
            raise AssertionError

    limits = Limits(call_seconds=0.01)
    assert code_of(ask(Slow(GOOD), limits=limits)) == (504, "AOTC-E765")


def test_bodies_are_bounded_before_they_are_sent_on() -> None:
    replicas = Replicas(GOOD)
    assert code_of(ask(replicas, body=bytes(101))) == (413, "AOTC-E763")
    assert replicas.asked == []


def test_requests_and_their_memory_are_bounded_together_and_given_back() -> None:
    async def work() -> list[Any]:
        release = asyncio.Event()

        async def hold(carried: Carried) -> Answered:
            await release.wait()
            return GOOD

        relay = Relay(hold, LIMITS)
        path = "/v2/models/m/infer"
        first = asyncio.ensure_future(relay.respond(request("POST", path, bytes(100))))
        await asyncio.sleep(0)
        large = await relay.respond(request("POST", path, bytes(100)))
        second = asyncio.ensure_future(relay.respond(request("POST", path, bytes(40))))
        await asyncio.sleep(0)
        third = await relay.respond(request("POST", path))
        release.set()
        ended = [await first, await second]
        ended.append(await relay.respond(request("POST", path, bytes(100))))
        return [code_of(large), code_of(third), [each.status_code for each in ended]]

    busy = (503, "AOTC-E766")
    assert asyncio.run(work()) == [busy, busy, [200, 200, 200]]


def test_live_is_the_process_and_ready_is_a_replica() -> None:
    replicas = Replicas(LostError())
    assert ask(replicas, "GET", "/v2/health/live").body == b'{"live":true}'
    assert replicas.asked == []
    response = ask(replicas, "GET", "/v2/health/ready")
    assert (response.status_code, response.body) == (503, b'{"ready":false}')
    assert ask(Replicas(GOOD), "GET", "/v2/health/ready").status_code == 200


def test_a_replica_knows_what_other_methods_mean() -> None:
    for path in ("/v2/health/live", "/metrics"):
        assert ask(Replicas(GOOD), "POST", path).body == b"good"


def test_an_application_is_asked_as_a_server_of_http_asks() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked = [await receive(), await receive()]
        assert asked == [{"type": "http.request", "body": b"all"}, {"type": "http.disconnect"}]
        assert (scope["method"], scope["path"], scope["headers"]) == ("PUT", "/a", [(b"x", b"y")])
        await send({"type": "http.response.start", "status": 201, "headers": [(b"v", b"w")]})
        await send({"type": "http.response.body", "body": b"one ", "more_body": True})
        await send({"type": "http.response.body", "body": memoryview(b"two")})

    carried = Carried("PUT", "/a", ((b"x", b"y"),), b"all")
    found = asyncio.run(request_relay.answered(app, carried))
    assert found == Answered(201, ((b"v", b"w"),), b"one two")


def test_no_replica_speaks_for_the_metrics_of_the_others() -> None:
    assert code_of(ask(Replicas(GOOD), "GET", "/metrics")) == (501, "AOTC-E767")


def test_an_error_of_ours_keeps_its_code() -> None:
    from aotc_runtime.base.errors import refusal

    error = refusal("AOTC-E762", "model m", "none", expected="one", hint="ask")
    assert isinstance(error, AotcError)
    assert code_of(ask(Replicas(error))) == (404, "AOTC-E762")
