"""SGLang's `/v1/responses` on the wire: typed events with a sequence number each.

    response.created, response.in_progress,
    response.output_item.added, response.content_part.added, response.output_text.delta ...,
    response.output_text.done, response.content_part.done, response.output_item.done,
    response.completed | response.incomplete | response.failed

The first two go out with the first news of the request; the item begins with its first text. Each lifecycle
event repeats the response object. There is no [DONE]. The lab keeps no responses: nothing can be fetched or
continued by its id.
"""

import uuid
from typing import Any

import msgspec

from replay.lab.generate_wire import error_body, failed
from replay.lab.messages_wire import event
from replay.lab.scheduler import Aborted, Finish, Generation, LengthReached


def status_of(finish: Finish | None) -> str:
    """Return the status of a response whose request ended like this."""
    match finish:
        case LengthReached():
            return "incomplete"
        case Aborted():
            return "failed"
        case _:
            return "completed"


class ResponsesWire:
    """One request's answer as a response."""

    def __init__(self, generation: Generation) -> None:
        """Start with nothing sent."""
        self._generation = generation
        self._item = f"msg_{uuid.uuid4().hex}"
        self._sequence = 0
        self._begun = False
        self._sent_chars = 0

    def __repr__(self) -> str:
        """Say how far the client has been told."""
        return f"<ResponsesWire {self._sequence} events sent>"

    def chunks(self) -> list[bytes]:
        """Return the events that tell what is new, the last ones once the request has finished."""
        generation = self._generation
        events = [*self._opening(), *self._content()]
        if not generation.finish:
            return events
        status = status_of(generation.finish)
        events += self._closing()
        output = [self._message("completed")] if self._sent_chars else []
        return [*events, self._lifecycle(f"response.{status}", self._response(status, output))]

    def whole(self) -> tuple[int, bytes]:
        """Return status and body of an answer that is not streamed."""
        generation = self._generation
        if error := failed(generation):
            status = error.status or 500
            return status, error_body(error.message, "InternalServerError", status)
        output = [self._message("completed")] if generation.text else []
        return 200, msgspec.json.encode(self._response(status_of(generation.finish), output))

    def _opening(self) -> list[bytes]:
        if self._begun:
            return []
        self._begun = True
        started = self._response("in_progress", [])
        return [self._lifecycle(kind, started) for kind in ("response.created", "response.in_progress")]

    def _content(self) -> list[bytes]:
        text = self._generation.text[self._sent_chars :]
        if not text:
            return []
        events = [] if self._sent_chars else [self._added(), self._part("added", "")]
        self._sent_chars += len(text)
        return [*events, self._event("output_text.delta", content_index=0, delta=text, logprobs=[])]

    def _closing(self) -> list[bytes]:
        if not self._sent_chars:
            return []
        text = self._generation.text
        done = self._event("output_text.done", content_index=0, text=text, logprobs=[])
        item = {"type": "response.output_item.done", "output_index": 0, "item": self._message("completed")}
        return [done, self._part("done", text), self._numbered(item)]

    def _added(self) -> bytes:
        item = {**self._message("in_progress"), "content": []}
        return self._numbered({"type": "response.output_item.added", "output_index": 0, "item": item})

    def _part(self, what: str, text: str) -> bytes:
        return self._event(f"content_part.{what}", content_index=0, part=_output_text(text))

    def _event(self, kind: str, **rest: object) -> bytes:
        return self._numbered({"type": f"response.{kind}", "item_id": self._item, "output_index": 0, **rest})

    def _lifecycle(self, kind: str, response: dict[str, Any]) -> bytes:
        return self._numbered({"type": kind, "response": response})

    def _numbered(self, payload: dict[str, Any]) -> bytes:
        numbered = event({**payload, "sequence_number": self._sequence})
        self._sequence += 1
        return numbered

    def _message(self, status: str) -> dict[str, Any]:
        return {
            "id": self._item,
            "content": [_output_text(self._generation.text)],
            "role": "assistant",
            "status": status,
            "type": "message",
            "phase": "final_answer",
        }

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        generation, asked = self._generation, self._generation.asked
        over, error = status != "in_progress", None
        if isinstance(generation.finish, Aborted):
            error = {"code": "server_error", "message": generation.finish.message}
        return {
            "id": asked.rid,
            "object": "response",
            "created_at": int(generation.stamps.received_wall),
            "model": asked.model,
            "output": output,
            "status": status,
            "usage": self._usage() if over else None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": error,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": True,
            "temperature": asked.temperature,
            "text": {"format": {"type": "text"}} if output else None,
            "top_p": None,
            "truncation": "disabled",
            "user": None,
            "metadata": {},
        }

    def _usage(self) -> dict[str, Any]:
        generation = self._generation
        prompt, completion = len(generation.asked.prompt), len(generation.output)
        cached = {"cached_tokens": generation.cached.total, "cache_write_tokens": 0}
        return {
            "input_tokens": prompt,
            "input_tokens_details": cached,
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        }


def _output_text(text: str) -> dict[str, Any]:
    return {"annotations": [], "text": text, "type": "output_text", "logprobs": None}
