"""One request as a client lives it: what text came, whose it was, and how it ended.

A clean end is what a careful client takes for one: status 200, a body that is complete as HTTP says, a finish
reason that is no abort, and no error on the way. `[DONE]` alone proves nothing. All else is loud, by what it
was: a status, an error inside the stream, an end that broke off, or silence until the client gave up.

The reader knows the two dialects on its own account and shares only the event splitter with the sidecar, so
that a mistake of the sidecar's dialects is not repeated here.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any

import httpx
import msgspec

from replay.demo.sessions import Ask
from service.core.sse import EventSplitter, payload

PATIENCE_S = 120.0
"""A client that has waited this long for a whole answer of 256 tokens gives up."""

KEEP_ALIVE_S = 2.0
"""Idle connections are dropped before any server would: a POST into a closing one proves nothing."""

OK = 200
DONE = b"[DONE]"


class End(StrEnum):
    """How a request ended for its client."""

    CLEAN = "clean"
    STATUS = "status"  # an HTTP status that is no success
    ERROR = "error"  # an error in the stream or in the body
    BROKEN = "broken"  # the body stopped short, or no finish reason came
    GAVE_UP = "gave_up"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the client got. `answered_by`: the rid of the attempt whose answer it is; "" if none came.

    An error is an error whether the body ended well behind it or was cut, as failing streams are.
    """

    rid: str
    end: End
    status: int = 0
    text: str = ""
    answered_by: str = ""
    finish: str = ""
    error: str = ""
    seconds: float = 0.0

    def __repr__(self) -> str:
        """Leave the text out."""
        return f"<Delivery {self.rid} {self.end} status={self.status} {len(self.text)} chars>"


class Heard:
    """What one answer has said so far; `generate` chunks carry all text, chat chunks what is new."""

    def __init__(self) -> None:
        """Start before the first event."""
        self.text = ""
        self.answered_by = ""
        self.finish = ""
        self.error = ""

    def __repr__(self) -> str:
        """Count characters, show none."""
        return f"<Heard {len(self.text)} chars, finish {self.finish!r}, error {self.error!r}>"

    def event(self, data: bytes) -> None:
        """Take one event's data."""
        if data.strip() == DONE:
            return
        try:
            said = msgspec.json.decode(data)
        except msgspec.DecodeError:
            self.error = self.error or "unreadable"
            return
        self.object(said)

    def object(self, said: Any) -> None:  # noqa: ANN401 (any JSON value)
        """Take one JSON object: an event's, or a whole body."""
        if not isinstance(said, dict) or said.get("error") or said.get("object") == "error":
            self.error = self.error or _error_name(said)
        elif "meta_info" in said:
            self._generate(said)
        else:
            self._chat(said)

    def _generate(self, said: dict[str, Any]) -> None:
        self.text = said.get("text", "")
        meta = said["meta_info"]
        self.answered_by = meta.get("id") or self.answered_by
        self.finish = (meta.get("finish_reason") or {}).get("type", self.finish)

    def _chat(self, said: dict[str, Any]) -> None:
        self.answered_by = said.get("id") or self.answered_by
        for choice in said.get("choices", ()):
            part = choice.get("delta") or choice.get("message") or {}
            self.text += part.get("content") or ""
            self.finish = choice.get("finish_reason") or self.finish

    @property
    def end(self) -> End:
        """What a body that is complete amounts to."""
        if self.error:
            return End.ERROR
        return End.CLEAN if self.finish and self.finish != "abort" else End.BROKEN


def _error_name(said: Any) -> str:  # noqa: ANN401 (any JSON value)
    inner = said.get("error", said) if isinstance(said, dict) else {}
    return str(inner.get("type") or "error") if isinstance(inner, dict) else "error"


def http_client() -> httpx.AsyncClient:
    """Return a client that leaves patience to `send` and never meets a connection that is just closing."""
    limits = httpx.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE_S)
    headers = {"accept-encoding": "identity"}
    return httpx.AsyncClient(limits=limits, timeout=2 * PATIENCE_S, trust_env=False, headers=headers)


async def send(
    http: httpx.AsyncClient,
    base: str,
    ask: Ask,
    *,
    patience_s: float = PATIENCE_S,
    clock: Callable[[], float] = monotonic,
) -> Delivery:
    """Send one request and live through its answer."""
    began, heard, status = clock(), Heard(), 0
    try:
        async with (
            asyncio.timeout(patience_s),
            http.stream("POST", base + ask.path, content=ask.body, headers=ask.headers) as answer,
        ):
            status = answer.status_code
            await _hear(answer, heard, streamed=ask.shape != "whole")
        end = heard.end if status == OK else End.STATUS
    except TimeoutError:
        end = End.GAVE_UP
    except httpx.HTTPError as error:
        end = End.ERROR if heard.error else End.BROKEN
        heard.error = heard.error or type(error).__name__
    return Delivery(
        ask.rid,
        end,
        status,
        heard.text,
        heard.answered_by,
        heard.finish,
        heard.error,
        clock() - began,
    )


async def _hear(answer: httpx.Response, heard: Heard, *, streamed: bool) -> None:
    """Read the body to its end."""
    if answer.status_code != OK or not streamed:
        heard.event(await answer.aread())
        return
    events = EventSplitter()
    async for data in answer.aiter_raw():
        for event in events.feed(data):
            if (said := payload(event)) is not None:
                heard.event(said)
