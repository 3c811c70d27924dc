"""The same client over aiohttp, for servers that the raw one does not get on with: `--transport aiohttp`.

Two and a half times the CPU, a task a request; how an answer is read and what is told of it is the same.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

import aiohttp

from replay.answer import Answer
from replay.client import BAD, CONNECT_S, IDLE_S, Done
from replay.dialects import answer_for
from replay.framing import BODY_BYTES_MAX, EVENTS
from replay.results import Ending
from replay.target import Target, tls_for
from service.core.sse import EventSplitter, payloads

READ_BYTES: Final = 1 << 17


class AiohttpCall:
    """One request over aiohttp."""

    def __init__(self, answer: Answer, done: Done) -> None:
        self._done = done
        self.answer = answer
        self.ending: Ending | None = None
        self.error: str | None = None
        self.sent_at: float | None = None
        self.first_at: float | None = None
        self.ended_at = 0.0
        self.status: int | None = None
        self.headers: Mapping[bytes, bytes] = {}
        self.task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<AiohttpCall {self.ending or 'under way'} {self.status}>"

    def stop(self, ending: Ending, error: str | None = None) -> None:
        if self.ending is None:
            if self.task is not None:
                self.task.cancel()
            self.end(ending, error)

    def end(self, ending: Ending, error: str | None) -> None:
        """Say what came of it, once."""
        if self.ending is None:
            self.ending, self.error, self.ended_at = ending, error, monotonic()
            self._done(self)


class AiohttpClient:
    """All requests to one target."""

    def __init__(
        self, target: Target, *, headers: Mapping[str, str] | None = None, authorities: str | None = None
    ) -> None:
        self._target = target
        self._headers = {"accept-encoding": "identity", "content-type": "application/json", **(headers or {})}
        self._tls = tls_for(target, authorities)
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<AiohttpClient {self._target.url} {len(self._tasks)} under way>"

    def start(self, path: str, body: bytes, done: Done) -> AiohttpCall:
        """Send; `done` is called once, when it has ended."""
        call = AiohttpCall(answer_for(path), done)
        task = call.task = asyncio.get_running_loop().create_task(
            self._carry(call, path, body), name="replay-call"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return call

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        """The session; made in the loop, when it is first wanted."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S, ssl=self._tls or True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                read_bufsize=READ_BYTES,
                auto_decompress=False,
            )
        return self._session

    async def _carry(self, call: AiohttpCall, path: str, body: bytes) -> None:
        try:
            call.sent_at = monotonic()
            async with self._open().post(
                self._target.url + path, data=body, headers=self._headers, allow_redirects=False
            ) as response:
                call.first_at = monotonic()
                call.status = response.status
                call.headers = {name.lower(): value for name, value in response.raw_headers}
                await _hear(call, response)
        except aiohttp.ClientConnectorError as error:
            call.sent_at = None
            call.end("refused", f"no connection: {type(error).__name__}")
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            call.end("refused" if call.first_at is None else "reset", "the connection was closed")
        else:
            _over(call)


async def _hear(call: AiohttpCall, response: aiohttp.ClientResponse) -> None:
    """Read the body as it comes."""
    if not call.headers.get(b"content-type", b"").lower().startswith(EVENTS):
        call.answer.whole(await response.read(), monotonic())
        return
    events = EventSplitter(BODY_BYTES_MAX)
    async for data in response.content.iter_any():
        at, found = monotonic(), payloads(events.feed(data))
        if found:
            call.answer.read(found, [at] * len(found))


def _over(call: AiohttpCall) -> None:
    status, error = call.status or 0, call.answer.error
    if status >= BAD:
        call.end("error", f"http {status}" + (f": {error}" if error else ""))
    else:
        call.end("error" if error else "complete", error)
