"""A whole data port for tests: the real app, monitor and dialect, a scripted upstream, one plain detector."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from service.config.routes import RouteSettings, RouteTable
from service.config.settings import Limits, Timeouts
from service.core.desk import Desk
from service.core.dialects import DIALECTS
from service.core.events import Channel, Finding, Incident, Kind, Look, Policy, RequestFacts, WorkerFacts
from service.core.fusion import Fusion
from service.edges.case import Kept
from service.edges.outlet import Sending
from service.edges.proxy import Proxy
from service.edges.relay import Means
from service.edges.tasks import Tasks
from service.edges.ticker import Ticker
from service.edges.upstream import Limits as UpstreamLimits
from service.edges.upstream_raw import RawUpstream
from tests.fakes import Script, ScriptedClient, ScriptedUpstream
from tests.serving import serving
from tests.waiting import farewells, until

CHAT = b"/v1/chat/completions"
ROUTED = b"x-smg-routed-worker-id: "


class Watchword:
    """Condemns a text that says BAD; suspects nothing."""

    name: ClassVar[str] = "watchword"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        return None

    def look(self, state: None, look: Look) -> Finding | None:
        if "BAD" not in look.text:
            return None
        return Finding(self.name, self.channel, Kind.GARBLED, 9.0, look.tokens, look.tokens, look.text[-8:])


class FakePins:
    """Two workers; answers remember who was asked for."""

    def __init__(self, *pins: int) -> None:
        self._pins = list(pins)
        self.avoided: list[frozenset[str]] = []
        self.answers: list[tuple[int | None, str]] = []

    def choose(self, model: str, avoid: frozenset[str]) -> int | None:
        self.avoided.append(avoid)
        return self._pins.pop(0) if self._pins else None

    def answered(self, model: str, pin: int | None, worker: str) -> None:
        self.answers.append((pin, worker))


def event(text: str, tokens: int, *, usage: bool = True, **more: object) -> bytes:
    """One chat event as SGLang writes it."""
    value: dict[str, object] = {
        "id": "r1",
        "object": "chat.completion.chunk",
        "created": 1795969847,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "delta": {"content": text},
                "logprobs": None,
                "finish_reason": None,
                "matched_stop": None,
            }
            | more
        ],
    }
    if usage:
        value["usage"] = {"prompt_tokens": 4, "total_tokens": 4 + tokens, "completion_tokens": tokens}
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def chat(*texts: str, usage: bool = True) -> list[bytes]:
    """A whole clean answer, event by event."""
    events = [event(text, place + 1, usage=usage) for place, text in enumerate(texts)]
    last = event("", len(texts), usage=False, finish_reason="stop", delta={})
    return [*events, last, b"data: [DONE]\n\n"]


def head(*headers: bytes, kind: bytes = b"text/event-stream", status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"content-type: " + kind, b"transfer-encoding: chunked", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def pieces(*events: bytes, pause_s: float = 0.0, end: bool = True) -> Script:
    """Events in chunked coding, each written for itself."""
    script: list[bytes | float] = []
    for one in events:
        script += [b"%x\r\n%b\r\n" % (len(one), one), pause_s]
    return [*script, b"0\r\n\r\n"] if end else script


def body(*, stream: bool = True, **more: object) -> bytes:
    message = {"role": "user", "content": "hello there"}
    return msgspec.json.encode({"model": "m", "messages": [message], "stream": stream} | more)


@dataclass
class Port:
    """What a test holds of a running data port."""

    port: int
    proxy: Proxy
    upstream: ScriptedUpstream
    pins: FakePins
    kept: list[Incident] = field(default_factory=list)
    cases: list[Kept] = field(default_factory=list)

    @property
    def desk(self) -> Desk:
        return self.proxy.means.desk

    async def client(self, *, receive_buffer: int = 0) -> ScriptedClient:
        return await ScriptedClient.connect(self.port, receive_buffer=receive_buffer)

    async def ask(
        self, request: bytes = b"", *headers: bytes, path: bytes = CHAT
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        client = await self.client()
        await client.post(path, request or body(), *headers)
        try:
            return await asyncio.wait_for(client.response(), 50)
        finally:
            client.leave()

    async def settled(self) -> None:
        """Until no request is live."""
        await until(lambda: not self.proxy.means.live)


def new_desk() -> Desk:
    fusion = Fusion(
        weights={"watchword": 1.0},
        act=5.0,
        factor=1.0,
        product_above=3.0,
        suspect_telemetry=5.0,
        suspect_other=2.0,
        second_opinion=5.0,
    )
    return Desk([Watchword()], fusion)


@asynccontextmanager
async def guarded(
    *scripts: Script,
    policy: Policy = Policy.OBSERVE,
    routes: tuple[RouteSettings, ...] = (),
    by_header: tuple[Policy, ...] = (),
    pins: tuple[int, ...] = (),
    limits: Limits | None = None,
    timeouts: Timeouts | None = None,
    sending: Sending = Sending.DIRECT,
    first_byte_s: float = 600.0,
) -> AsyncIterator[Port]:
    async with ScriptedUpstream(*scripts) as upstream:
        tasks, kept, cases, fake_pins = Tasks(), list[Incident](), list[Kept](), FakePins(*pins)

        def keep(incident: Incident, case: Kept) -> None:
            kept.append(incident)
            cases.append(case)

        means = Means(
            upstream=RawUpstream(upstream.url, UpstreamLimits()),
            desk=new_desk(),
            tasks=tasks,
            pins=fake_pins,
            keep=keep,
            sending=sending,
            first_byte_s=first_byte_s,
        )
        proxy = Proxy(
            means,
            dialects=DIALECTS,
            routes=RouteTable(routes, policy, by_header),
            limits=limits or Limits(),
            timeouts=timeouts or Timeouts(),
        )
        ticking = tasks.spawn(Ticker(proxy.tick, every_s=0.02).run(), "ticker")
        async with serving(proxy) as running:
            yield Port(running.port, proxy, upstream, fake_pins, kept, cases)
        ticking.cancel()
        await means.upstream.close()
        await tasks.cancel()
        await farewells()
