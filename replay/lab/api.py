"""The HTTP surface of a worker: a raw ASGI application over one prefill or decode worker.

A request's work belongs to the worker, not to its connection: the handler only waits for news and renders
them, while a sibling task watches for the client to leave. A client that leaves aborts its request at once
(SGLang takes up to 4 s for that).
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec

from replay.lab import control, exposition, info
from replay.lab.admission import SlotQueue
from replay.lab.chat_wire import ChatWire
from replay.lab.completions_wire import CompletionsWire
from replay.lab.decode import DecodeWorker
from replay.lab.dialect_intake import (
    count_messages_tokens,
    read_completion,
    read_messages,
    read_responses,
)
from replay.lab.exposition import Metrics
from replay.lab.generate_wire import GenerateWire, error_body
from replay.lab.intake import RequestError, Submission, read_chat, read_generate
from replay.lab.messages_wire import MessagesWire, error_payload
from replay.lab.model import TinyLM
from replay.lab.prefill import PrefillWorker
from replay.lab.prefill_control import PrefillControl
from replay.lab.responses_wire import ResponsesWire
from replay.lab.scheduler import Generation, LiveRequests
from replay.lab.wire import Wire

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY_BYTES = 4 << 20
"""Far above any prompt that fits the context."""

FLUSHED = b"Cache flushed.\n"
BUSY = b"Flush cache failed: requests are running or waiting.\n"


class Worker(Protocol):
    """What the surface needs of a worker of either kind."""

    mode: str
    models: tuple[TinyLM, TinyLM]
    live: LiveRequests
    slots: SlotQueue
    metrics: Metrics

    @property
    def hangup_s(self) -> float:
        """From the loss of a client to the abort of its request."""

    def start(self, asked: Submission, tasks: asyncio.TaskGroup) -> Generation:
        """Take a request in."""

    def abort(self, generation: Generation) -> None:
        """End a request."""


class _Abort(msgspec.Struct):
    rid: str = ""
    abort_all: bool = False


_abort_body = msgspec.json.Decoder(_Abort)


class Call:
    """One HTTP exchange: the request read, the answer written."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Wrap the three arguments of ASGI."""
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query = parse_qs(scope["query_string"].decode("latin-1"))
        self.receive = receive
        self.send = send

    def __repr__(self) -> str:
        """Name method and path."""
        return f"<Call {self.method} {self.path}>"

    async def body(self) -> bytes:
        """Return the whole request body."""
        parts = bytearray()
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client left before its request was complete")
            parts += message.get("body", b"")
            if len(parts) > MAX_BODY_BYTES:
                raise RequestError(f"The body has more than {MAX_BODY_BYTES} bytes.", status=413)
            if not message.get("more_body", False):
                return bytes(parts)

    async def begin(self, status: int, kind: str, length: int | None = None) -> None:
        """Send status and headers."""
        headers = [(b"content-type", kind.encode())]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, body: bytes) -> None:
        """Send a piece of the body."""
        await self.send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, body: bytes = b"") -> None:
        """Send the last piece."""
        await self.send({"type": "http.response.body", "body": body})

    async def reply(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        """Send a whole answer."""
        await self.begin(status, kind, len(body))
        await self.end(body)


class Api:
    """The ASGI application."""

    def __init__(self, worker: Worker, tasks: asyncio.TaskGroup, bootstrap_port: int | None) -> None:
        """Serve `worker`, whose requests run in `tasks`."""
        self._worker = worker
        self._tasks = tasks
        self._bootstrap_port = bootstrap_port
        self._routes: dict[str, dict[str, Callable[[Call], Awaitable[None]]]] = {
            "/generate": {"POST": self._generate},
            "/v1/chat/completions": {"POST": self._speaking(read_chat, ChatWire)},
            "/v1/completions": {"POST": self._speaking(read_completion, CompletionsWire)},
            "/v1/messages": {"POST": self._speaking(read_messages, MessagesWire)},
            "/v1/messages/count_tokens": {"POST": self._count_tokens},
            "/v1/responses": {"POST": self._speaking(read_responses, ResponsesWire)},
            "/abort_request": {"POST": self._abort},
            "/health": {"GET": self._health_generate},
            "/health_generate": {"GET": self._health_generate},
            "/ready": {"GET": self._empty},
            "/model_info": {"GET": self._model_info},
            "/get_model_info": {"GET": self._model_info},
            "/server_info": {"GET": self._server_info},
            "/get_server_info": {"GET": self._server_info},
            "/v1/models": {"GET": self._models},
            "/v1/loads": {"GET": self._loads},
            "/flush_cache": {"GET": self._flush, "POST": self._flush},
            "/metrics": {"GET": self._metrics},
        }
        if isinstance(worker, DecodeWorker):
            self._routes |= _lab_routes(worker)
        elif isinstance(worker, PrefillWorker):
            self._routes |= _prefill_lab_routes(worker)

    def __repr__(self) -> str:
        """Show the worker."""
        return f"<Api {self._worker!r}>"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        call = Call(scope, receive, send)
        methods = self._routes.get(call.path)
        if methods is None:
            await call.reply(b'{"detail":"Not Found"}', 404)
        elif call.method not in methods:
            await call.reply(b'{"detail":"Method Not Allowed"}', 405)
        else:
            with suppress(ConnectionResetError):
                await _refusing(methods[call.method], call)

    async def _generate(self, call: Call) -> None:
        generation = self._worker.start(read_generate(await call.body()), self._tasks)
        await self._answer(call, generation, GenerateWire(generation, prefill=self._worker.mode == "prefill"))

    def _speaking(
        self, read: Callable[[bytes], Submission], wire_of: Callable[[Generation], Wire]
    ) -> Callable[[Call], Awaitable[None]]:
        """Return the handler of a dialect: how its bodies are read, how its answers are written."""

        async def handle(call: Call) -> None:
            generation = self._worker.start(read(await call.body()), self._tasks)
            await self._answer(call, generation, wire_of(generation))

        return handle

    async def _count_tokens(self, call: Call) -> None:
        count = count_messages_tokens(await call.body())
        await call.reply(msgspec.json.encode({"input_tokens": count}))

    async def _answer(self, call: Call, generation: Generation, wire: Wire) -> None:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch(call, generation), name=f"watch-{generation.asked.rid}")
            await (_stream if generation.asked.stream else _whole)(call, generation, wire)
            watching.cancel()

    async def _watch(self, call: Call, generation: Generation) -> None:
        """Abort the request of a client that leaves; a prefill worker may be slow to notice."""
        while (await call.receive())["type"] != "http.disconnect":
            pass
        await asyncio.sleep(self._worker.hangup_s)
        if not generation.finish:
            self._end(generation)

    def _end(self, generation: Generation) -> None:
        self._worker.metrics.aborted()
        self._worker.abort(generation)

    async def _abort(self, call: Call) -> None:
        try:
            asked = _abort_body.decode(await call.body())
        except msgspec.DecodeError as error:
            raise RequestError(str(error), kind="Bad Request") from None
        self._worker.live.abort(asked.rid, self._end, abort_all=asked.abort_all)
        await call.reply(b"")

    async def _empty(self, call: Call) -> None:
        await call.reply(b"")

    async def _health_generate(self, call: Call) -> None:
        """Compute one token, apart from every pool that requests use; a stuck scheduler computes none."""
        worker = self._worker
        stuck = isinstance(worker, DecodeWorker) and worker.stuck
        await call.reply(b"", 503 if stuck or not info.computes(worker.models[0]) else 200)

    async def _model_info(self, call: Call) -> None:
        await call.reply(msgspec.json.encode(info.model_info(self._worker.mode)))

    async def _server_info(self, call: Call) -> None:
        pages = self._worker.slots.table.pages
        said = info.server_info(self._worker.mode, self._bootstrap_port, pages)
        await call.reply(msgspec.json.encode(said))

    async def _models(self, call: Call) -> None:
        await call.reply(msgspec.json.encode(info.models()))

    async def _loads(self, call: Call) -> None:
        table = self._worker.slots.table
        said = info.loads(
            self._worker.mode, self._worker.live, table.pages, self._worker.slots.available_pages
        )
        await call.reply(msgspec.json.encode(said))

    async def _flush(self, call: Call) -> None:
        """Drop the prefix cache; refuse while busy, as the engine does."""
        worker = self._worker
        busy = len(worker.live) > 0 or (isinstance(worker, PrefillWorker) and not worker.flush())
        await call.reply(BUSY if busy else FLUSHED, 400 if busy else 200, "text/plain; charset=utf-8")

    async def _metrics(self, call: Call) -> None:
        worker = self._worker
        if isinstance(worker, PrefillWorker):
            worker.count_cache()
        text = worker.metrics.render(worker.live.phases(), worker.slots.available_pages)
        await call.reply(text, kind=exposition.TYPE)


def _lab_routes(worker: DecodeWorker) -> dict[str, dict[str, Callable[[Call], Awaitable[None]]]]:
    async def show(call: Call) -> None:
        await call.reply(msgspec.json.encode(control.show(worker)))

    async def change(call: Call) -> None:
        await call.reply(msgspec.json.encode(control.change(worker, await call.body())))

    async def ledger(call: Call) -> None:
        since = call.query.get("since", ["0"])[-1]
        await call.reply(control.ledger(worker, since), kind="application/x-ndjson")

    return {"/lab/control": {"GET": show, "POST": change}, "/lab/ledger": {"GET": ledger}}


def _prefill_lab_routes(worker: PrefillWorker) -> dict[str, dict[str, Callable[[Call], Awaitable[None]]]]:
    switches = PrefillControl(worker)

    async def show(call: Call) -> None:
        await call.reply(msgspec.json.encode(switches.show()))

    async def change(call: Call) -> None:
        await call.reply(msgspec.json.encode(switches.change(await call.body())))

    return {"/lab/control": {"GET": show, "POST": change}}


async def _refusing(handle: Callable[[Call], Awaitable[None]], call: Call) -> None:
    """Turn a refusal into the endpoint's own error shape."""
    try:
        await handle(call)
    except RequestError as error:
        if call.path.startswith("/v1/messages"):
            body = msgspec.json.encode(error_payload(str(error), error.status))
        elif call.path == "/generate" and error.kind == "BadRequestError":
            body = msgspec.json.encode({"error": {"message": str(error)}})
        else:
            body = error_body(str(error), error.kind, error.status)
        await call.reply(body, error.status)


async def _stream(call: Call, generation: Generation, wire: Wire) -> None:
    """Send what is new whenever there is news. Headers wait for the first event."""
    begun = False
    while True:
        await generation.changed.wait()
        generation.changed.clear()
        for event in wire.chunks():
            if not begun:
                await call.begin(200, "text/event-stream; charset=utf-8")
                begun = True
            await call.part(event)
        if generation.finish:
            break
    await call.end()


async def _whole(call: Call, generation: Generation, wire: Wire) -> None:
    while not generation.finish:
        await generation.changed.wait()
        generation.changed.clear()
    status, body = wire.whole()
    await call.reply(body, status)
