"""Answers in the other dialects: Anthropic's messages, OpenAI's responses, SGLang's own `/generate`.

`answer_for` chooses by the path that was asked; an unknown path is read as OpenAI's chat.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from replay.answer import DONE, UNREADABLE, Answer, Schema
from service.core.dialects.generate_reader import GenerateReader
from service.core.dialects.wire import UNDECODABLE, error_type
from service.core.events import UNKNOWN, Delta

SPEC: Final = "spec_"
"""What SGLang tells of speculation in `meta_info` begins so."""


class Counts(Schema):
    """Tokens as both dialects count them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    input_tokens_details: dict[str, Any] | None = None


class Block(Schema):
    """A piece of content, or what is added to one."""

    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    content: "list[Block] | None" = None

    @property
    def all_text(self) -> str:
        inner = "".join(block.all_text for block in self.content or ())
        return (self.thinking or "") + (self.text or "") + (self.partial_json or "") + inner


class Inner(Schema):
    """The message or the response that an event is about."""

    id: str | None = None
    status: str | None = None
    usage: Counts | None = None
    output: list[Block] | None = None
    error: Any = None


class Event(Inner):
    """One event, or a whole body."""

    type: str | None = None
    delta: str | Block | None = None
    message: Inner | str | None = None
    response: Inner | None = None
    content: list[Block] | None = None
    stop_reason: str | None = None


_event: Final = msgspec.json.Decoder(Event)


class TypedAnswer(Answer):
    """Dialects whose events name their type."""

    __slots__ = ()

    def read(self, payloads: Sequence[bytes], times: Sequence[float]) -> None:
        for payload, at in zip(payloads, times, strict=True):
            if payload in {b"", DONE}:
                continue
            try:
                self._event(_event.decode(payload), at)
            except UNDECODABLE:
                self.failed(UNREADABLE)

    def _event(self, event: Event, at: float) -> None:
        for inner in (event, event.message, event.response):
            if isinstance(inner, Inner):
                self._inner(inner)
        if event.type in {"error", "response.failed"}:
            self.failed(self.error or "error")
        if isinstance(event.delta, Block) and event.delta.stop_reason is not None:
            self.finish_reason = event.delta.stop_reason
        self.finish_reason = event.stop_reason or self.finish_reason
        if text := self._new_text(event):
            self.said(0, text, at)

    def _new_text(self, event: Event) -> str:
        if isinstance(event.delta, Block):
            return event.delta.all_text
        if event.delta is not None:
            return event.delta
        if event.type in {"message", None}:
            return "".join(block.all_text for block in (*(event.content or ()), *(event.output or ())))
        return ""

    def _inner(self, inner: Inner) -> None:
        """What a message or a response says of itself."""
        self.rid = self.rid or inner.id
        if inner.error is not None:
            self.failed(error_type(inner.error))
        if inner.status in {"completed", "incomplete", "failed"}:
            self.finish_reason = inner.status
        if (counts := inner.usage) is not None:
            self._counted(counts)

    def _counted(self, counts: Counts) -> None:
        if counts.input_tokens is not None:
            self.prompt_tokens = counts.input_tokens
        if counts.output_tokens is not None:
            self.completion_tokens = counts.output_tokens
        cached = (counts.input_tokens_details or {}).get("cached_tokens", counts.cache_read_input_tokens)
        if isinstance(cached, int):
            self.cached_tokens = cached


class _Generated(Schema):
    meta_info: dict[str, Any] | None = None


_generated: Final = msgspec.json.Decoder(_Generated)
_META: Final = b'"meta_info":{'


class GenerateAnswer(Answer):
    """SGLang's `/generate`, whose events repeat all text: read by the core, which knows how not to."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        super().__init__()
        self._reader = GenerateReader()

    def read(self, payloads: Sequence[bytes], times: Sequence[float]) -> None:
        last = b""
        for payload, at in zip(payloads, times, strict=True):
            self._take(self._reader.read([payload]), at)
            last = payload if payload not in {b"", DONE} else last
        self._meta(last)

    def whole(self, body: bytes, at: float) -> None:
        self._take(self._reader.whole(body), at)
        self._meta(body)

    def _take(self, deltas: Sequence[Delta], at: float) -> None:
        for delta in deltas:
            if delta.malformed:
                self.failed(UNREADABLE)
            if delta.error:
                self.failed(delta.error)
            if delta.text:
                self.said(delta.choice, delta.text, at)
            if delta.finish:
                self.finish_reason = delta.finish
            if delta.exact:
                self.steps = (self.steps or []) + [(UNKNOWN, accepted) for accepted in delta.exact]

    def _meta(self, event: bytes) -> None:
        """What the last event says of the request."""
        at = event.rfind(_META)
        try:
            meta = _generated.decode(b"{" + event[at:] if at >= 0 else event).meta_info
        except UNDECODABLE:  # a list of choices; what is said of each is not one request's
            return
        if meta is not None:
            self.rid = _one(meta, "id", str)
            self.prompt_tokens = _one(meta, "prompt_tokens", int)
            self.completion_tokens = _one(meta, "completion_tokens", int)
            self.cached_tokens = _one(meta, "cached_tokens", int)
            told = {name: value for name, value in meta.items() if name.startswith(SPEC)}
            self.spec = told or self.spec


def _one(meta: dict[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 - of the kind asked for, or None
    value = meta.get(name)
    return value if isinstance(value, kind) else None


ANSWERS: Final[dict[str, type[Answer]]] = {
    "/generate": GenerateAnswer,
    "/v1/messages": TypedAnswer,
    "/v1/responses": TypedAnswer,
}


def answer_for(path: str) -> Answer:
    """An empty answer of the dialect that a path speaks."""
    return ANSWERS.get(path.partition("?")[0], Answer)()
