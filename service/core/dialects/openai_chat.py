"""OpenAI chat completions, as SGLang, vLLM and the routers speak them.

Growth of tokens is told only when asked for: `stream_options.continuous_usage_stats` puts `usage` into every
chunk, `include_usage` adds one event with the sum, `return_spec_tokens_details` one with the verify steps of
the whole request. What only we asked for is cut out again (`chat_cut`).

A heartbeat is an SSE comment: OpenAI's SDKs skip it, byte-idle timers count it, event-based watchdogs do not
see it. An error event ends a stream without `[DONE]`: the SDKs raise on any data with a top-level `error`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from service.core.dialects import splice
from service.core.dialects.chat_cut import cut
from service.core.dialects.chat_reader import ChatReader, Message, text_of
from service.core.dialects.protocol import Outgoing, Reader
from service.core.dialects.wire import Schema, decode_request, first_rid
from service.core.events import UNKNOWN, RequestFacts


class _Asked(Message):
    """A message of a request."""

    role: str | None = None


class _StreamOptions(Schema):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _ResponseFormat(Schema):
    type: str | None = None


class _Request(Schema):
    model: str | None = None
    messages: list[_Asked] | None = None
    stream: bool | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    rid: str | list[str] | None = None
    stream_options: _StreamOptions | None = None
    return_spec_tokens_details: bool | None = None
    response_format: _ResponseFormat | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")


class _RawOptions(Schema):
    stream_options: dict[str, msgspec.Raw] | None = None


_REQUEST: Final = msgspec.json.Decoder(_Request, strict=False)  # lax, as the engine's own reader is
_RAW_OPTIONS: Final = msgspec.json.Decoder(_RawOptions)
_NO_TOOLS: Final = {b"null", b"[]"}
_PREAMBLE: Final = {"system", "developer"}


class OpenAIChat:
    """The dialect of `/v1/chat/completions`."""

    name: Final = "openai_chat"
    path: Final = b"/v1/chat/completions"

    def request(self, body: bytes) -> RequestFacts:
        """Read a client's request. Raises `BadRequest`."""
        request = decode_request(_REQUEST, body)
        options = request.stream_options or _StreamOptions()
        limit = request.max_completion_tokens or request.max_tokens
        wanted = request.response_format
        messages, tools = request.messages or [], _tools(request).decode()
        texts = [text_of(message) for message in messages]
        return RequestFacts(
            dialect=self.name,
            model=request.model or "",
            stream=bool(request.stream),
            choices=max(1, request.n or 1),
            max_tokens=UNKNOWN if limit is None else limit,
            temperature=1.0 if request.temperature is None else request.temperature,
            rid=first_rid(request.rid),
            prompt="\n".join([*texts, tools]).rstrip("\n"),
            wants_usage=bool(options.include_usage),
            wants_growth=bool(options.continuous_usage_stats),
            wants_spec=bool(request.return_spec_tokens_details),
            wants_json=wanted is not None and wanted.type in {"json_object", "json_schema"},
            tools=bool(tools),
            preamble_chars=_preamble_chars(messages, texts),
            tools_chars=len(tools) and len(tools) + 1,
            sealed=any(map(_is_sealed, messages)),
        )

    def outgoing(self, body: bytes, facts: RequestFacts, rid: str, *, ask_growth: bool) -> Outgoing:
        """With exactly this rid; acceptance is asked for, live and in sum, where `ask_growth` says so."""
        members: dict[str, object] = {} if rid == facts.rid else {"rid": rid}
        asks = ask_growth and facts.stream
        if asks and not (facts.wants_usage and facts.wants_growth):
            members["stream_options"] = _stream_options(body)
        if asks and not facts.wants_spec:
            members["return_spec_tokens_details"] = True
        return Outgoing(
            body=splice.put(body, members),
            asked_growth=asks and not facts.wants_growth,
            asked_usage=asks and not facts.wants_usage,
            asked_spec=asks and not facts.wants_spec,
        )

    def reader(self, facts: RequestFacts) -> Reader:
        return ChatReader(facts.choices)

    cut = staticmethod(cut)

    def beat(self) -> bytes:
        """A comment: invisible to every reader of events, so it can never be taken for an answer."""
        return b": keep-alive\n\n"

    def refusal(self, status: int, reason: str, message: str) -> bytes:
        """The body of an HTTP error."""
        error = {"message": message, "type": reason, "param": None, "code": status}
        return msgspec.json.encode({"error": error})

    def in_band(self, reason: str, message: str) -> bytes:
        """The event that ends a stream loudly; `[DONE]` must not follow it."""
        error = {"message": message, "type": reason, "param": None, "code": "stream_integrity"}
        return b"data: " + msgspec.json.encode({"error": error}) + b"\n\n"


def _tools(request: _Request) -> bytes:
    tools = bytes(request.tools)
    return b"" if tools in _NO_TOOLS else tools


def _preamble_chars(messages: Sequence[_Asked], texts: Sequence[str]) -> int:
    """Characters of the system messages that a prompt begins with."""
    turn = next((at for at, message in enumerate(messages) if message.role not in _PREAMBLE), len(messages))
    return sum(len(text) + 1 for text in texts[:turn])


def _is_sealed(message: Message) -> bool:
    """Whether a message holds what is not text: its parts have none to read."""
    parts = message.content if isinstance(message.content, list) else ()
    return any(not isinstance(part, str) and part.text is None for part in parts)


def _stream_options(body: bytes) -> dict[str, object]:
    """The client's own, and ours."""
    named = _RAW_OPTIONS.decode(body).stream_options or {}
    return {**named, "include_usage": True, "continuous_usage_stats": True}
