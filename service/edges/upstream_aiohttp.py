"""The same seam over aiohttp: the reference the own client is tested against, and the way to HTTP proxies.

A task reads the response and calls the sink, so each read costs a task wake: 1.42 times smg in place of 0.95.
What aiohttp does of its own accord and a proxy must not have is switched off: cookies, redirects,
decompression, its own headers. It does not send a POST again on a stale connection; the rule stands here.
Known to be weaker than our own client (aiohttp 3.14, held by its tests): a reset ends a body without length
like a clean close, bytes on an idle connection are taken for the next response, and after a bad chunk header
it waits for more.
"""

import asyncio
from typing import Any, Final

import aiohttp
from yarl import URL

from service.core.events import Ending
from service.edges.headers import size_of
from service.edges.tasks import Tasks
from service.edges.upstream import (
    NOBODY,
    Counts,
    Limits,
    Request,
    ResponseHead,
    Sink,
    UpstreamError,
    origin_of,
)

OWN_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class AiohttpExchange:
    """One request and the task that reads its response."""

    __slots__ = ("_client", "_open", "_request", "_sink", "_task")

    def __init__(self, client: "AiohttpUpstream", request: Request, sink: Sink, tasks: Tasks) -> None:
        self._client = client
        self._request = request
        self._sink = sink
        self._open = asyncio.Event()
        self._open.set()
        self._task = tasks.spawn(self._run(), "upstream-exchange")

    def __repr__(self) -> str:
        return f"<AiohttpExchange {'running' if self._open.is_set() else 'paused'}>"

    def pause(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    def abort(self) -> None:
        self._sink = NOBODY
        self._task.cancel()

    def drain(self, within_s: float) -> None:
        self._sink = NOBODY
        self._client.counts.drains += 1
        self.resume()
        timer = asyncio.get_running_loop().call_later(within_s, self._task.cancel)
        self._task.add_done_callback(lambda _: timer.cancel())

    async def _run(self) -> None:
        try:
            response = await self._client.open(self._request)
            try:
                await self._read(response)
            finally:
                response.close()
        except UpstreamError as error:
            self._sink.on_error(error)
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, OSError):
            self._sink.on_error(UpstreamError(Ending.BROKEN, "upstream_closed"))
        else:
            self._sink.on_end()

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        limits = self._client.limits
        headers = [(name.lower(), value) for name, value in response.raw_headers]
        if size_of(headers) > limits.head_bytes:
            raise UpstreamError(Ending.BROKEN, "response_head_too_large")
        self._sink.on_head(ResponseHead(response.status, headers))
        size = 0
        async for piece in response.content.iter_any():
            await self._open.wait()
            size += len(piece)
            if piece:
                self._sink.on_data(piece)
            if size > limits.body_bytes:
                raise UpstreamError(Ending.BROKEN, "response_too_large")


class AiohttpUpstream:
    """Two sessions: one with a pool, one that never reuses, for the second try."""

    __slots__ = ("_base", "_fresh", "_pooled", "_tasks", "counts", "limits")

    def __init__(self, url: str, limits: Limits) -> None:
        origin = origin_of(url)
        self._base = f"{origin.scheme}://{origin.authority.decode()}{origin.prefix.decode()}"
        self._tasks = Tasks()
        self.limits = limits
        self.counts = Counts()
        self._pooled = self._session(aiohttp.TCPConnector(limit=0, keepalive_timeout=limits.idle_s))
        self._fresh = self._session(aiohttp.TCPConnector(limit=0, force_close=True))

    def __repr__(self) -> str:
        return f"<AiohttpUpstream {len(self._tasks)} running>"

    def start(self, request: Request, sink: Sink) -> AiohttpExchange:
        return AiohttpExchange(self, request, sink, self._tasks)

    def sweep(self) -> None:
        """The connector's own timer does it."""

    async def close(self) -> None:
        await self._tasks.cancel()
        await self._pooled.close()
        await self._fresh.close()

    async def open(self, request: Request) -> aiohttp.ClientResponse:
        """The response head; sent once more where a pooled connection turned out to be closing."""
        trace = {"reused": False}
        try:
            return await self._ask(self._pooled, request, trace)
        except UpstreamError as error:
            if not trace["reused"] or error.ending is not Ending.REFUSED:
                raise
        self.counts.stale_retries += 1
        return await self._ask(self._fresh, request, trace)

    async def _ask(
        self, session: aiohttp.ClientSession, request: Request, trace: dict[str, bool]
    ) -> aiohttp.ClientResponse:
        try:
            return await session.request(
                request.method.decode(),
                URL(self._base + request.target.decode("latin-1"), encoded=True),
                data=request.body or None,
                headers=[
                    (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers
                ],
                allow_redirects=False,
                trace_request_ctx=trace,
            )
        except aiohttp.ServerTimeoutError:
            raise UpstreamError(Ending.TIMEOUT, "connect_timeout") from None
        except aiohttp.ClientConnectorError:
            raise UpstreamError(Ending.REFUSED, "connect_failed") from None
        except (aiohttp.ClientConnectionError, OSError):
            raise UpstreamError(Ending.REFUSED, "upstream_closed") from None
        except aiohttp.ClientError:
            raise UpstreamError(Ending.BROKEN, "bad_response") from None

    def _session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect_s),
            auto_decompress=False,
            skip_auto_headers=OWN_HEADERS,
            max_line_size=self.limits.head_bytes,
            max_field_size=self.limits.head_bytes,
            trace_configs=[self._trace()],
        )

    def _trace(self) -> aiohttp.TraceConfig:
        async def reused(_: aiohttp.ClientSession, context: Any, __: object) -> None:  # noqa: ANN401 - aiohttp's
            self.counts.reuses += 1
            context.trace_request_ctx["reused"] = True

        async def created(_: aiohttp.ClientSession, __: Any, ___: object) -> None:  # noqa: ANN401 - aiohttp's
            self.counts.connects += 1

        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(reused)
        trace.on_connection_create_end.append(created)
        return trace
