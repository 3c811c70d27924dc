"""A worker that streams to a schedule: many streams, one chunk each every 5 ms, in SGLang's chat dialect.

    python -m replay.bench.mock_worker PORT          GET /arrivals/staggered | /arrivals/lockstep switches

Staggered spreads the streams over five phases 1 ms apart; lockstep writes all of them in one tick, as an
engine's decode step does. Each chunk's `created` is the monotonic clock in ns at its write: the client on
the same machine reads off how long the chunk took. Usage comes in every chunk only where the request asks for
it, as in the engine. It names itself in `x-smg-routed-worker-id` and answers `GET /workers`, so that a proxy
straight in front of it sees what it would see of a router.
"""

import asyncio
import json
import sys
from time import monotonic_ns
from typing import Final, cast

import uvloop
from httptools import HttpRequestParser

from replay.bench.texts import Piece, streams

PERIOD_S: Final = 0.005
PHASES: Final = 5
MODEL: Final = "zai-org/GLM-4.6-FP8"
INFO: Final = {
    "model_path": MODEL,
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_num_draft_tokens": 4,
    "disaggregation_mode": "null",
}


class Schedule:
    """Who writes when."""

    def __init__(self) -> None:
        self._phases: list[set[Stream]] = [set() for _ in range(PHASES)]
        self._joined = 0
        self.lockstep = False

    def join(self, stream: "Stream") -> None:
        self._phases[0 if self.lockstep else self._joined % PHASES].add(stream)
        self._joined += 1

    def leave(self, stream: "Stream") -> None:
        for phase in self._phases:
            phase.discard(stream)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(self._tick, 0, loop.time())

    def _tick(self, number: int, due: float) -> None:
        """Write one phase. Absolute times: a late tick does not delay the next."""
        for stream in tuple(self._phases[number % PHASES]):
            stream.write()
        due += PERIOD_S / PHASES
        asyncio.get_running_loop().call_at(due, self._tick, number + 1, due)


class Stream:
    """One answer on its way."""

    __slots__ = ("_left", "_open", "_schedule", "_tokens", "_transport", "_usage")

    def __init__(
        self, transport: asyncio.Transport, pieces: list[Piece], schedule: Schedule, *, usage: bool
    ) -> None:
        self._transport = transport
        self._left = iter(pieces)
        self._schedule = schedule
        self._usage = usage
        self._tokens = 0
        self._open = b'data: {"id":"%032x","object":"chat.completion.chunk","created":' % id(self)

    def write(self) -> None:
        """The next chunk, or the end."""
        stamp = b"%d" % monotonic_ns()
        piece = next(self._left, None)
        if piece is None:
            self._schedule.leave(self)
            self._transport.write(_chunk(self._last(stamp)) + b"0\r\n\r\n")
            return
        self._tokens += piece.tokens
        self._transport.write(_chunk(self._event(stamp, piece.text)))

    def _event(self, stamp: bytes, text: bytes) -> bytes:
        delta = b'"delta":{"reasoning_content":null,"content":%b}' % text
        choice = b'{"index":0,%b,"logprobs":null,"finish_reason":null,"matched_stop":null}' % delta
        end = self._usage_now() if self._usage else b""
        return self._open + stamp + b',"model":"%b","choices":[%b]%b}\n\n' % (MODEL.encode(), choice, end)

    def _usage_now(self) -> bytes:
        counts = (44, 44 + self._tokens, self._tokens)
        return (
            b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null,'
            b'"reasoning_tokens":0,"completion_tokens_details":null}' % counts
        )

    def _last(self, stamp: bytes) -> bytes:
        delta = b'"delta":{"reasoning_content":null}'
        choice = b'{"index":0,%b,"logprobs":null,"finish_reason":"stop","matched_stop":2}' % delta
        final = self._open + stamp + b',"model":"%b","choices":[%b]}\n\n' % (MODEL.encode(), choice)
        if self._usage:
            final += (
                self._open
                + stamp
                + b',"model":"%b","choices":[]%b}\n\n' % (MODEL.encode(), self._usage_now())
            )
        return final + b"data: [DONE]\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._parser = HttpRequestParser(self)
        self._url = self._body = b""
        self._stream: Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._worker.schedule.leave(self._stream)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        url, body, self._url, self._body = self._url, self._body, b"", b""
        if self._parser.get_method() == b"POST":
            self._stream_to(json.loads(body))
        else:
            self._tell(self._worker.page(url))

    def _stream_to(self, request: dict[str, object]) -> None:
        options = request.get("stream_options")
        usage = isinstance(options, dict) and bool(options.get("continuous_usage_stats"))
        self._transport.write(self._worker.head)
        self._stream = Stream(
            self._transport, self._worker.answer(request), self._worker.schedule, usage=usage
        )
        self._stream.write()  # the first at once
        self._worker.schedule.join(self._stream)

    def _tell(self, page: object) -> None:
        body = json.dumps(page).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)


class Worker:
    """All connections of one worker."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.schedule = Schedule()
        self._streams = streams()
        self._given = 0
        self.head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"x-smg-routed-worker-id: %b\r\ntransfer-encoding: chunked\r\n\r\n" % self.url.encode()
        )

    def answer(self, request: dict[str, object]) -> list[Piece]:
        """The next prepared answer, no longer than was asked for."""
        self._given += 1
        pieces = self._streams[self._given % len(self._streams)]
        most = request.get("max_tokens")
        return pieces[:most] if isinstance(most, int) else pieces

    def page(self, url: bytes) -> object:
        if url.startswith(b"/arrivals/"):
            self.schedule.lockstep = url.endswith(b"lockstep")
            return {"lockstep": self.schedule.lockstep}
        if url.startswith(b"/workers"):
            return {"workers": [{"url": self.url, "worker_type": "regular", "is_healthy": True}]}
        if url.startswith(b"/v1/models"):
            return {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        return INFO


async def serve(port: int) -> asyncio.Server:
    """Listen, and start writing to the schedule."""
    worker = Worker(port)
    worker.schedule.start()
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: Connection(worker), "127.0.0.1", port, backlog=512)


async def main() -> None:
    server = await serve(int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
