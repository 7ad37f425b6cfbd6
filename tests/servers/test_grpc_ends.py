"""Calls of gRPC that are given up, or under way when a server ends or a bundle is replaced; and
whose trace they are in: `make test-serve`.
"""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from served import Served, serving
from waiting import SECONDS, until

from tests.conftest import Bundle
from tests.servers.test_tritonclient import CLIENT, SERVER, pytestmark

__all__ = ["pytestmark"]

SCRIPT = Path(__file__).with_name("grpc_client.py")
BOTH = pytest.mark.parametrize("options", [(), ("--max-delay", "2")], ids=["alone", "joined"])

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

INSTRUMENTED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
file = open({file!r}, "a", buffering=1)
line = lambda span: span.to_json(indent=None) + "\\n"
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file, formatter=line)))
trace.set_tracer_provider(provider)
"""
"""What `opentelemetry-instrument` does: it configures the process before the program begins."""


def started(served: Served, *what: str) -> subprocess.Popen[str]:
    return subprocess.Popen([CLIENT, SCRIPT, served.grpc, *what], stdout=subprocess.PIPE, text=True)


def came_of(client: subprocess.Popen[str]) -> dict[str, int]:
    told, _ = client.communicate(timeout=SECONDS)
    assert client.returncode == 0
    return json.loads(told.splitlines()[-1])


@BOTH
def test_cancelled_calls_leave_nothing(options: tuple[str, ...], types: Bundle) -> None:
    with serving([types[0]], [types[1]], "--grpc-port", "0", *options, python=SERVER) as served:
        assert sum(came_of(started(served, "cancel")).values()) == 100
        until(lambda: served.held() == {0.0}, "it holds no request")
        assert came_of(started(served, "trace", "")) == {"answer": 1}


@BOTH
def test_others_are_answered(options: tuple[str, ...], types: Bundle) -> None:
    with serving([types[0]], [types[1]], "--grpc-port", "0", *options, python=SERVER) as served:
        assert came_of(started(served, "beside")) == {"answer": 400}
        until(lambda: served.held() == {0.0}, "it holds no request")


@BOTH
def test_sigterm_ends_no_call(options: tuple[str, ...], types: Bundle) -> None:
    with serving([types[0]], [types[1]], "--grpc-port", "0", *options, python=SERVER) as served:
        client = started(served, "ask")
        assert client.stdout is not None and client.stdout.readline() == "asking\n"
        served.process.send_signal(signal.SIGTERM)
        found = came_of(client)
        assert served.process.wait(SECONDS) == 0
    assert found.pop("answer") >= 20
    # grpc itself cancels what has arrived and was not begun, and sends it no other way.
    told = ("StatusCode.CANCELLED: CANCELLED", "StatusCode.UNAVAILABLE: failed to connect")
    assert found and all(each.startswith(told) for each in found), found


def test_sighup_under_load_loses_no_call(types: Bundle, tmp_path: Path) -> None:
    place = tmp_path / "types.aotb"
    shutil.copyfile(types[0], place)
    with serving([place], [types[1]], "--grpc-port", "0", python=SERVER) as served:
        end = tmp_path / "end"
        client = started(served, "ask", str(end))
        assert client.stdout is not None and client.stdout.readline() == "asking\n"
        for number in (2, 3):
            shutil.copyfile(types[0], tmp_path / "next")
            (tmp_path / "next").replace(place)
            served.process.send_signal(signal.SIGHUP)
            served.wait_for("serving", number)
        end.touch()
        found = came_of(client)
    assert found.pop("answer") > 20 and found == {}


def test_trace_is_continued(types: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spans"
    (tmp_path / "sitecustomize.py").write_text(INSTRUMENTED.format(file=str(file)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    options = ["--grpc-port", "0", "--traces"]
    with serving([types[0]], [types[1]], *options, python=SERVER) as served:
        monkeypatch.delenv("PYTHONPATH")
        came_of(started(served, "trace", f"00-{TRACE}-{SPAN}-01"))
        until(lambda: file.read_text("utf-8").count("\n") == 2, "both spans are told")
    call, request = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    assert {span["context"]["trace_id"] for span in (call, request)} == {f"0x{TRACE}"}
    assert request["parent_id"] == f"0x{SPAN}"
    assert call["parent_id"] == request["context"]["span_id"]
    assert request["name"] == "inference.GRPCInferenceService/ModelInfer"
