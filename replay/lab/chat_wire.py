"""SGLang's `/v1/chat/completions` on the wire.

    role chunk, content chunks, finish chunk [, sglext chunk] [, usage chunk], [DONE]

The role chunk goes out with the first token, whatever its text. After that a step whose text delta is
empty has no event at all: that is what the engine does with special tokens, and why a request that emits
<pad> for ever is silent on chat while its token count grows on `/generate`. A request that the engine
failed ends in an error event.
"""

from typing import Any

import msgspec

from replay.lab.generate_wire import (
    DONE,
    WEIGHT_VERSION,
    cached_details,
    error_body,
    failed,
    spec_fields,
    sse,
)
from replay.lab.scheduler import Aborted, Finish, Generation, LengthReached, Stopped


def finish_name(finish: Finish | None) -> tuple[str | None, int | None]:
    """Return finish_reason and matched_stop."""
    match finish:
        case None:
            return None, None
        case Stopped(matched):
            return "stop", matched
        case LengthReached():
            return "length", None
        case Aborted():
            return "abort", None


def usage(generation: Generation) -> dict[str, Any]:
    """Return OpenAI usage with SGLang's extra keys; cached tokens as with --enable-cache-report, if any."""
    prompt, completion = len(generation.asked.prompt), len(generation.output)
    cached = generation.cached.total
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached} if cached else None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def spec_details(generation: Generation) -> dict[str, Any]:
    """Return `sglext.spec_tokens_details`."""
    fields = spec_fields(generation)
    if not fields:
        return {}
    head = {name: fields.pop(name) for name in ("spec_accept_rate", "spec_accept_length")}
    caps = {"spec_cap_length": 0.0, "spec_block_accept_length": 0.0}
    return {**head, **caps, **fields, "spec_cap_lens_histogram": []}


def sglext(generation: Generation) -> dict[str, Any]:
    """Return SGLang's extension of an OpenAI answer: what the request asked for, where there is any."""
    asked = generation.asked
    cached = cached_details(generation) if asked.cached_details else None
    spec = spec_details(generation) if asked.spec_details else {}
    told: dict[str, Any] = {
        **({"cached_tokens_details": cached} if cached else {}),
        **({"spec_tokens_details": spec} if spec else {}),
    }
    return {"sglext": told} if told else {}


class ChatWire:
    """One request's answer in the OpenAI dialect."""

    def __init__(self, generation: Generation) -> None:
        """Start with nothing sent."""
        self._generation = generation
        self._role_sent = False
        self._sent_chars = 0

    def __repr__(self) -> str:
        """Say how far the client has been told."""
        return f"<ChatWire {self._sent_chars} chars sent>"

    def chunks(self) -> list[bytes]:
        """Return the events that tell what is new; [DONE] once the request has finished."""
        generation = self._generation
        if error := failed(generation):
            return [error_event(error), DONE]
        events = [*self._role(), *self._content()]
        return [*events, *self._closing()] if generation.finish else events

    def whole(self) -> tuple[int, bytes]:
        """Return status and body of an answer that is not streamed."""
        generation = self._generation
        if error := failed(generation):
            status = error.status or 500
            return status, error_body(error.message, str(status), status)
        versions = [{"version": WEIGHT_VERSION, "start": 0, "end": len(generation.output)}]
        name, matched = finish_name(generation.finish)
        message = {"role": "assistant", "content": generation.text, "reasoning_content": None}
        choice = {"index": 0, "message": message, "logprobs": None}
        body = {
            **self._head("chat.completion"),
            "choices": [{**choice, "finish_reason": name, "matched_stop": matched}],
            "usage": usage(generation),
            "metadata": {"weight_version": WEIGHT_VERSION, "weight_versions": versions},
        }
        return 200, msgspec.json.encode({**body, **sglext(generation)})

    def _role(self) -> list[bytes]:
        generation = self._generation
        if self._role_sent or not (generation.output or generation.finish):
            return []
        self._role_sent = True
        return [self._event({"reasoning_content": None, "role": "assistant", "content": ""})]

    def _content(self) -> list[bytes]:
        delta = self._generation.text[self._sent_chars :]
        if not delta:
            return []
        self._sent_chars += len(delta)
        counts = {"usage": usage(self._generation)} if self._generation.asked.continuous_usage else {}
        return [self._event({"reasoning_content": None, "content": delta}, tail=counts)]

    def _closing(self) -> list[bytes]:
        generation = self._generation
        events = [self._event({"reasoning_content": None}, finish=generation.finish)]
        if extension := sglext(generation):
            events.append(sse({**self._head(), "choices": [], "usage": None, **extension}))
        if generation.asked.include_usage:
            events.append(sse({**self._head(), "choices": [], "usage": usage(generation)}))
        return [*events, DONE]

    def _event(
        self, delta: dict[str, Any], finish: Finish | None = None, tail: dict[str, Any] | None = None
    ) -> bytes:
        name, matched = finish_name(finish)
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": None,
            "finish_reason": name,
            "matched_stop": matched,
        }
        return sse({**self._head(), "choices": [choice], **(tail or {})})

    def _head(self, kind: str = "chat.completion.chunk") -> dict[str, Any]:
        asked, created = self._generation.asked, int(self._generation.stamps.received_wall)
        return {"id": asked.rid, "object": kind, "created": created, "model": asked.model}


def error_event(error: Aborted) -> bytes:
    """Return the event that ends the stream of a request which the engine failed."""
    status = error.status or 500
    body = error_body(error.message, "INTERNAL_SERVER_ERROR", status)
    return b'data: {"error":' + body + b"}\n\n"
