"""A client of gRPC that may do what no library lets one do: frames of HTTP/2, byte by byte."""

import re
import socket
import struct
from collections import Counter, deque
from types import TracebackType
from typing import Self

from waiting import SECONDS

from aotc_serve.grpc import grpc_messages as messages

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW = 4
FRAME_BYTES = 2**14
type Frame = tuple[int, int, int, bytes]
SERVICE = "/inference.GRPCInferenceService/"


def infer_request(values: bytes, name: str = "digits") -> bytes:
    """The message of a request for one row of digits."""
    message = messages.InferRequest(model_name=name, raw_input_contents=[values])
    message.inputs.add(name="image", datatype="FP32", shape=[1, 64])
    return message.SerializeToString()


class Http2:
    """A connection. window: bytes that it takes of an answer; it never takes more."""

    def __init__(self, address: str, window: int = 2**30) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as grpc does
        self._rest = b""
        self._unread: deque[Frame] = deque()
        # What may be sent: on the connection, at first on a stream, and beyond that on each.
        self._room, self._first, self._more = 65535, 65535, Counter[int]()
        settings = struct.pack("!HI", INITIAL_WINDOW, window)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self._send(SETTINGS, 0, 0, settings)
        if window:
            self._send(WINDOW, 0, 0, struct.pack("!I", 2**30))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.socket.close()

    def _send(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        head = struct.pack("!I", len(payload))[1:] + bytes([kind, flags])
        self.socket.sendall(head + struct.pack("!I", stream) + payload)

    def begin(self, stream: int, method: str, *more: tuple[str, str]) -> None:
        """The header of a call. stream: an odd number, greater than those before."""
        fields = [(":method", "POST"), (":scheme", "http"), (":path", SERVICE + method)]
        fields += [(":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc")]
        self._send(HEADERS, END_HEADERS, stream, b"".join(_field(*f) for f in (*fields, *more)))

    def send(self, stream: int, data: bytes, size: int | None = None, flags: int = 0) -> None:
        """A message, or its beginning. size: that is announced; it then goes on."""
        whole = bytes([flags]) + struct.pack("!I", len(data) if size is None else size) + data
        while whole:
            room = min(self._room, self._first + self._more[stream], FRAME_BYTES)
            if room <= 0:
                found = self._received()
                if found is None:
                    return
                self._unread.append(found)
                if found[2] == stream and (found[0] == RESET or found[1] & END_STREAM):
                    return
                continue
            part, whole = whole[:room], whole[room:]
            self._room -= len(part)
            self._more[stream] -= len(part)
            is_last = size is None and not whole
            self._send(DATA, END_STREAM if is_last else 0, stream, part)

    def frame(self) -> Frame | None:
        """Kind, flags, stream and payload; None at the end of the connection."""
        return self._unread.popleft() if self._unread else self._received()

    def _received(self) -> Frame | None:
        while len(self._rest) < 9 or len(self._rest) < 9 + int.from_bytes(self._rest[:3]):
            try:
                part = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not part:
                return None
            self._rest += part
        size = int.from_bytes(self._rest[:3])
        kind, flags = self._rest[3], self._rest[4]
        stream = int.from_bytes(self._rest[5:9])
        payload, self._rest = self._rest[9 : 9 + size], self._rest[9 + size :]
        if kind in (SETTINGS, PING) and not flags & ACK:
            self._send(kind, ACK, 0, payload if kind == PING else b"")
        if kind == SETTINGS:
            for name, value in struct.iter_unpack("!HI", payload):
                self._first = value if name == INITIAL_WINDOW else self._first
        elif kind == WINDOW and stream:
            self._more[stream] += int.from_bytes(payload)
        elif kind == WINDOW:
            self._room += int.from_bytes(payload)
        return kind, flags, stream, payload

    def answer(self) -> tuple[int, str, bytes]:
        """Status of gRPC, our code and the message of the first call that ends."""
        texts = data = b""
        while (found := self.frame()) is not None:
            kind, flags, _, payload = found
            if kind == DATA:
                data += payload
            elif kind == HEADERS:
                texts += payload
                if flags & END_STREAM:
                    status = re.search(rb"grpc-status.(\d+)", texts, re.DOTALL)
                    code = re.search(rb"AOTC-E\d{3}", texts)
                    assert status is not None, texts
                    return int(status[1]), code[0].decode() if code else "", data[5:]
            elif kind in (RESET, GOAWAY):
                break
        raise ConnectionError("it ended without an answer")


def _field(name: str, value: str) -> bytes:
    """A field as HPACK has literals that nobody remembers."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
