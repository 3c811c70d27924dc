"""A server that streams to the clock and costs little: what a client is measured against.

    python -m replay.mock [--port 0] [--chunks 64] [--pace-ms 15]       prints its URL on the first line

Every POST gets the same answer, in the dialect of OpenAI's plain completions under a path that ends so, else
in that of chat: so many chunks, one write each, every `pace-ms` on absolute times; with a pace of 0 all in
one write. Any GET gets 200 and the count of requests that came.
"""

import argparse
import asyncio
import json
import sys
from itertools import cycle, islice
from typing import Final, cast

import uvloop

HOST: Final = "127.0.0.1"
CHUNKS: Final = 64
PACE_MS: Final = 15.0
PROSE: Final = (
    "the seven engineers read a long report about memory pages that were handed from one worker to another"
    " before the fence had been raised and so the answer was wrong for an hour until somebody looked at the"
    " numbers and saw that only busy hours had trouble which is what load does to a race in code that nobody"
    " wrote down "
)
"""A chunk a word: what detectors read as prose."""
HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
LENGTH: Final = b"content-length:"


class Script:
    """One answer, ready to write."""

    def __init__(self, kind: str, pieces: list[dict[str, object]], last: dict[str, object]) -> None:
        texts = [_event(kind, [{"index": 0, **piece}]) for piece in pieces]
        end = _event(kind, [{"index": 0, **last, "finish_reason": "stop"}])
        count = len(pieces)
        usage = {"prompt_tokens": 10, "completion_tokens": count, "total_tokens": count + 10}
        end += _event(kind, [], usage=usage) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self.writes = [*texts[:-1], texts[-1] + end]
        self.all = HEAD + b"".join(self.writes)


class Mock:
    """What all connections share."""

    def __init__(self, chunks: int = CHUNKS, pace_ms: float = PACE_MS) -> None:
        words = [f"{word} " for word in islice(cycle(PROSE.split()), chunks)]
        self.pace_s = pace_ms / 1e3
        self.requests = 0
        self._chat = Script(
            "chat.completion.chunk", [{"delta": {"content": word}} for word in words], {"delta": {}}
        )
        self._plain = Script("text_completion", [{"text": word} for word in words], {"text": ""})

    def answer(self, head: bytes) -> Script:
        """What a request gets."""
        self.requests += 1
        path = head.split(b" ", 2)[1]
        return self._plain if path.endswith(b"/completions") and b"/chat/" not in path else self._chat


class Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, mock: Mock) -> None:
        self._mock = mock
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0 or len(self._data) < end + 4 + _length(self._data[:end].lower()):
            return
        head, self._data = self._data[:end], b""
        if head.startswith(b"POST"):
            self._stream(self._mock.answer(head))
        else:
            body = json.dumps({"requests": self._mock.requests, "data": [{"id": "mock"}]}).encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            self._transport.write(head % len(body) + body)

    def _stream(self, script: Script) -> None:
        if not self._mock.pace_s:
            self._transport.write(script.all)
            return
        self._transport.write(HEAD)
        self._later(script, 0, asyncio.get_running_loop().time() + self._mock.pace_s)

    def _later(self, script: Script, number: int, due: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(due, self._tick, script, number, due)

    def _tick(self, script: Script, number: int, due: float) -> None:
        self._transport.write(script.writes[number])
        if number + 1 < len(script.writes):
            self._later(script, number + 1, due + self._mock.pace_s)


def _event(kind: str, choices: list[dict[str, object]], **more: object) -> bytes:
    chunk = {"id": "cmpl-1", "object": kind, "created": 1700000000, "model": "mock"}
    value = json.dumps({**chunk, "choices": choices, **more}, separators=(",", ":"))
    return _chunk(b"data: %b\n\n" % value.encode())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _length(head: bytes) -> int:
    at = head.find(LENGTH)
    return int(head[at + len(LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0


async def serve(mock: Mock, port: int = 0) -> asyncio.Server:
    """Listen."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: Connection(mock), HOST, port, backlog=4096)


async def main(port: int, chunks: int, pace_ms: float) -> None:
    server = await serve(Mock(chunks, pace_ms), port)
    sys.stdout.write(f"http://{HOST}:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    words = argparse.ArgumentParser(prog="replay.mock", description=__doc__.partition("\n")[0])
    words.add_argument("--port", type=int, default=0)
    words.add_argument("--chunks", type=int, default=CHUNKS)
    words.add_argument("--pace-ms", type=float, default=PACE_MS)
    told = words.parse_args()
    uvloop.run(main(told.port, told.chunks, told.pace_ms))
