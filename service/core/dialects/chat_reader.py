"""Reads chat completion chunks of SGLang, vLLM and the routers in between.

All that the model wrote counts as text: reasoning, content, names and arguments of tool calls. Tokens are
told by `usage` where somebody asked for it: per choice and cumulative in a chunk, summed over the choices in
the final event, which therefore says nothing of one choice where there are several.

Cost: one decode for all events of an inspection, 0.8 us an event of 300 bytes. Nothing is remembered.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from service.core.dialects.wire import (
    NAN_FINISH,
    NAN_STOP,
    UNREADABLE,
    Error,
    Schema,
    SpecTokens,
    decode_all,
    decode_one,
    error_type,
)
from service.core.events import UNKNOWN, Cached, Delta

DONE: Final = b"[DONE]"
NOT_PLAIN: Final = ("", UNKNOWN)
_SILENT: Final = {b"", DONE}  # payloads that are no event of the model


class Part(Schema):
    """A part of a message's content; only text is read."""

    text: str | None = None


class Function(Schema):
    """What a tool call calls."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCall(Schema):
    """A tool call, or a piece of one."""

    function: Function | None = None
    index: int | None = None


class Message(Schema):
    """A message of a request or a response, or the piece of one that a chunk brings."""

    content: str | list[Part | str] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # what newer vLLM calls it
    tool_calls: list[ToolCall] | None = None


class _Choice(Schema):
    index: int = 0
    delta: Message | None = None
    finish_reason: str | None = None
    matched_stop: Any = None


class _WholeChoice(_Choice):
    """The same where the response is no stream."""

    delta: Message | None = msgspec.field(default=None, name="message")


class _PromptDetails(Schema):
    cached_tokens: int | None = None


class _Usage(Schema):
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Ext(Schema):
    spec_tokens_details: SpecTokens | list[SpecTokens] | None = None


class _Chunk(Schema):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    sglext: _Ext | None = None
    error: Any = None


class _Body(_Chunk):
    choices: list[_WholeChoice] | None = None  # type: ignore[assignment]  # narrower, and never written


_CHUNK: Final = msgspec.json.Decoder(_Chunk)
_CHUNKS: Final = msgspec.json.Decoder(list[_Chunk])
_BODY: Final = msgspec.json.Decoder(_Body)
_ERROR: Final = msgspec.json.Decoder(Error)


class ChatReader:
    """Reads one attempt's response."""

    __slots__ = ("_choices", "cached")

    def __init__(self, choices: int) -> None:
        self._choices = choices
        self.cached = Cached()

    def read(self, payloads: Sequence[bytes]) -> list[Delta]:
        """One delta a choice and event; none for `[DONE]` and for events that tell nothing."""
        if payloads and payloads[-1] == DONE:
            payloads = payloads[:-1]
        deltas: list[Delta] = []
        for chunk, payload in zip(decode_all(_CHUNKS, _CHUNK, payloads), payloads, strict=True):
            deltas += self._deltas(chunk, payload)
        return deltas

    def brief(self, payloads: Sequence[bytes]) -> list[Delta]:
        """As `read`, with runs; an event of a run costs half of what it costs alone."""
        if self._choices > 1:
            return self.read(payloads)
        if payloads and payloads[-1] == DONE:
            payloads = payloads[:-1]
        deltas: list[Delta] = []
        texts: list[str] = []
        counts: list[int] = []
        for chunk, payload in zip(decode_all(_CHUNKS, _CHUNK, payloads), payloads, strict=True):
            text, tokens = _plain(chunk) if chunk is not None else NOT_PLAIN
            if counts and (not text or tokens < counts[-1]):
                deltas.append(_run(texts, counts))
                texts, counts = [], []
            if text:
                texts.append(text)
                counts.append(tokens)
            else:
                deltas += self._deltas(chunk, payload)
        if counts:
            deltas.append(_run(texts, counts))
        return deltas

    def whole(self, body: bytes) -> list[Delta]:
        """A non-streamed body: one delta a choice, then the verify steps where they were asked for."""
        answer = decode_one(_BODY, body)
        if answer is None or not answer.choices or answer.error is not None:
            return self._odd(answer, body) or [UNREADABLE]
        tokens = _shown(answer.usage, answer.choices[0]) if len(answer.choices) == 1 else UNKNOWN
        self.cached = _cached(answer.usage)
        deltas = [_delta(choice, tokens, whole=True) for choice in answer.choices]
        if (read := _prompt_tokens(answer.usage)) != UNKNOWN:
            deltas[0] = msgspec.structs.replace(deltas[0], prompt_tokens=read)
        return deltas + _totals(answer)

    def _deltas(self, chunk: _Chunk | None, payload: bytes) -> list[Delta]:
        if chunk is None or not chunk.choices or chunk.error is not None:
            return self._odd(chunk, payload)
        tokens = _tokens(chunk.usage)
        return [_delta(choice, tokens) for choice in chunk.choices]

    def _odd(self, chunk: _Chunk | None, payload: bytes) -> list[Delta]:
        """No chunk of a choice: an error, the verify steps, the final usage, or nothing we can read."""
        if chunk is None:
            return [] if payload in _SILENT else [UNREADABLE]
        if chunk.error is not None:
            return [Delta(error=error_type(chunk.error))]
        if chunk.choices is None and (flat := decode_one(_ERROR, payload)) and flat.object == "error":
            return [Delta(error=error_type({"type": flat.type}))]
        deltas = _totals(chunk)
        if chunk.usage is not None:
            self.cached = _cached(chunk.usage)
        if self._choices == 1 and _tokens(chunk.usage) != UNKNOWN:
            deltas.append(Delta(tokens=_tokens(chunk.usage), prompt_tokens=_prompt_tokens(chunk.usage)))
        return deltas


def _plain(chunk: _Chunk) -> tuple[str, int]:
    """Text and tokens of an event that brings nothing else."""
    choices = chunk.choices
    if not choices or len(choices) > 1 or chunk.error is not None:
        return NOT_PLAIN
    choice = choices[0]
    message, usage = choice.delta, chunk.usage
    if message is None or choice.finish_reason is not None or choice.index:
        return NOT_PLAIN
    text = message.content
    if type(text) is not str or message.reasoning_content or message.reasoning or message.tool_calls:
        return NOT_PLAIN
    tokens = None if usage is None else usage.completion_tokens
    return text, UNKNOWN if tokens is None else tokens


def _run(texts: list[str], counts: list[int]) -> Delta:
    return Delta(0, "".join(texts), counts[-1], run=tuple(counts))


def text_of(message: Message) -> str:
    """All the text of one message, in the order a model generates it."""
    content = message.content or ""
    parts = [content] if isinstance(content, str) else [_text_of_part(part) for part in content]
    functions = [call.function for call in message.tool_calls or () if call.function is not None]
    calls = [text for function in functions for text in (function.name or "", _arguments(function))]
    return "".join([message.reasoning_content or message.reasoning or "", *parts, *calls])


def _delta(choice: _Choice, tokens: int, *, whole: bool = False) -> Delta:
    message = choice.delta
    finish = choice.finish_reason
    if finish is None:
        finish = ""
    elif choice.matched_stop == NAN_STOP:
        finish = NAN_FINISH
    if message is None:
        return Delta(choice.index, "", tokens, finish)
    if (
        message.tool_calls
        or message.reasoning_content
        or message.reasoning
        or type(message.content) is not str
    ):
        called = bool(message.tool_calls)
        calls = _calls(message.tool_calls, whole=whole) if message.tool_calls else ()
        return Delta(choice.index, text_of(message), tokens, finish, called, calls=calls)
    return Delta(choice.index, message.content, tokens, finish)


def _tokens(usage: _Usage | None) -> int:
    if usage is None or usage.completion_tokens is None:
        return UNKNOWN
    return usage.completion_tokens


def _shown(usage: _Usage | None, choice: _Choice) -> int:
    """Completion tokens, less the reasoning that was counted and kept from the client."""
    tokens, message = _tokens(usage), choice.delta
    hides = message is not None and not (message.reasoning_content or message.reasoning)
    if usage is None or tokens == UNKNOWN or not hides:
        return tokens
    return max(tokens - (usage.reasoning_tokens or 0), 0)


def _prompt_tokens(usage: _Usage | None) -> int:
    if usage is None or usage.prompt_tokens is None:
        return UNKNOWN
    return usage.prompt_tokens


def _cached(usage: _Usage | None) -> Cached:
    details = usage.prompt_tokens_details if usage is not None else None
    cached = details.cached_tokens if details is not None else None
    return Cached(_prompt_tokens(usage), UNKNOWN if cached is None else cached)


def _calls(calls: Sequence[ToolCall], *, whole: bool) -> tuple[tuple[int, str], ...]:
    """Pieces of arguments by call; in a whole body the order tells calls apart, in a stream only an index."""
    return tuple(
        (place if call.index is None else call.index, _arguments(call.function))
        for place, call in enumerate(calls)
        if call.function is not None and (whole or call.index is not None)
    )


def _totals(chunk: _Chunk) -> list[Delta]:
    details = chunk.sglext.spec_tokens_details if chunk.sglext is not None else None
    totals = details if isinstance(details, list) else [details] if details is not None else []
    return [
        Delta(index, accepted=total.spec_num_correct_drafts, steps=total.spec_verify_ct)
        for index, total in enumerate(totals)
        if total.spec_num_correct_drafts is not None and total.spec_verify_ct is not None
    ]


def _text_of_part(part: Part | str) -> str:
    return part if isinstance(part, str) else part.text or ""


def _arguments(function: Function) -> str:
    arguments = function.arguments
    if isinstance(arguments, dict):
        return msgspec.json.encode(arguments).decode()
    return arguments or ""
