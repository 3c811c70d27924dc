"""SGLang's `/v1/messages` on the wire: the Anthropic dialect as SGLang 0.5.23 speaks it.

    message_start, content_block_start, content_block_delta ..., content_block_stop,
    message_delta (stop reason and usage), message_stop

The message starts with the first text or with the end, whichever comes first, so a request that emits <pad>
for ever sends nothing at all. Counts come once, at the end: there is no acceptance to be had from this
dialect. The engine sends no `ping`. A failed request closes its block, then `error` and `message_stop`; the
text of a 5xx never names its cause.
"""

import uuid
from typing import Any

import msgspec

from replay.lab.generate_wire import failed
from replay.lab.scheduler import Aborted, Finish, Generation, LengthReached

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "request_timeout_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}

INTERNAL = "Internal server error"
SERVER_FAULT = 500


def stop_reason(finish: Finish | None) -> str:
    """Return Anthropic's reason; an abort has none and ends the turn, as in the engine."""
    return "max_tokens" if isinstance(finish, LengthReached) else "end_turn"


def error_payload(message: str, status: int) -> dict[str, Any]:
    """Return the error object of this dialect."""
    text = INTERNAL if status >= SERVER_FAULT else message or "Request failed"
    return {"type": "error", "error": {"type": ERROR_TYPES.get(status, "api_error"), "message": text}}


def event(payload: dict[str, Any]) -> bytes:
    """Frame one event under its type's name."""
    return f"event: {payload['type']}\n".encode() + b"data: " + msgspec.json.encode(payload) + b"\n\n"


class MessagesWire:
    """One request's answer as a message."""

    def __init__(self, generation: Generation) -> None:
        """Start with nothing sent."""
        self._generation = generation
        self._id = f"msg_{uuid.uuid4().hex}"
        self._started = False
        self._sent_chars = 0

    def __repr__(self) -> str:
        """Say how far the client has been told."""
        return f"<MessagesWire {self._sent_chars} chars sent>"

    def chunks(self) -> list[bytes]:
        """Return the events that tell what is new, the last ones once the request has finished."""
        generation = self._generation
        if error := failed(generation):
            return [*self._start(), *self._stop_block(), *self._failing(error)]
        events = self._content()
        return [*events, *self._closing()] if generation.finish else events

    def whole(self) -> tuple[int, bytes]:
        """Return status and body of an answer that is not streamed."""
        generation = self._generation
        if error := failed(generation):
            status = error.status or SERVER_FAULT
            return status, msgspec.json.encode(error_payload(error.message, status))
        body = {
            **self._message(),
            "content": [{"type": "text", "text": generation.text}],
            "model": generation.asked.model,
            "stop_reason": stop_reason(generation.finish),
            "usage": {**self._input(), "output_tokens": len(generation.output)},
        }
        return 200, msgspec.json.encode(body)

    def _content(self) -> list[bytes]:
        text = self._generation.text[self._sent_chars :]
        if not text:
            return []
        opening = [] if self._sent_chars else [event(_block("start", content_block=_text("text", "")))]
        started = self._start()
        self._sent_chars += len(text)
        return [*started, *opening, event(_block("delta", delta=_text("text_delta", text)))]

    def _closing(self) -> list[bytes]:
        generation = self._generation
        ending = {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(generation.finish)},
            "usage": {"output_tokens": len(generation.output)},
        }
        stop = event({"type": "message_stop"})
        return [*self._start(), *self._stop_block(), event(ending), stop]

    def _failing(self, error: Aborted) -> list[bytes]:
        status = error.status or SERVER_FAULT
        return [event(error_payload(error.message, status)), event({"type": "message_stop"})]

    def _start(self) -> list[bytes]:
        if self._started:
            return []
        self._started = True
        usage = {**self._input(), "output_tokens": 0}
        message = {**self._message(), "content": [], "model": self._generation.asked.model, "usage": usage}
        return [event({"type": "message_start", "message": message})]

    def _stop_block(self) -> list[bytes]:
        return [event({"type": "content_block_stop", "index": 0})] if self._sent_chars else []

    def _message(self) -> dict[str, Any]:
        return {"id": self._id, "type": "message", "role": "assistant"}

    def _input(self) -> dict[str, int]:
        generation = self._generation
        cached = generation.cached.total
        counts = {"input_tokens": len(generation.asked.prompt) - cached}
        return {**counts, "cache_read_input_tokens": cached} if cached else counts


def _block(what: str, **rest: object) -> dict[str, Any]:
    return {"type": f"content_block_{what}", "index": 0, **rest}


def _text(kind: str, text: str) -> dict[str, str]:
    return {"type": kind, "text": text}
