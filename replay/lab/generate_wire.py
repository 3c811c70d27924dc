"""SGLang's native `/generate` on the wire: whole answers and cumulative SSE chunks.

Every chunk repeats all text and all token ids so far, and `meta_info` with the new `completion_tokens`.
What tells how a request went (`spec_*`, latencies, `weight_versions`) is in the last chunk only. Key sets
and key order are those of the captures; a prefill worker stamps other stations than a decode worker does.
"""

from typing import Any

import msgspec

from replay.lab.scheduler import Aborted, Finish, Generation, LengthReached, Stopped, wall_s
from replay.lab.speculation import DRAFT_TOKENS

DONE = b"data: [DONE]\n\n"
WEIGHT_VERSION = "default"


def sse(payload: object) -> bytes:
    """Frame one event."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def error_body(message: str, kind: str, status: int) -> bytes:
    """Return SGLang's OpenAI error object."""
    shape = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return msgspec.json.encode(shape)


def failed(generation: Generation) -> Aborted | None:
    """Return the finish if it has an HTTP status, that is: if the engine failed the request."""
    finish = generation.finish
    return finish if isinstance(finish, Aborted) and finish.status is not None else None


def finish_reason(finish: Finish | None) -> dict[str, Any] | None:
    """Return the native finish_reason object."""
    match finish:
        case None:
            return None
        case Stopped(matched):
            return {"type": "stop", "matched": matched}
        case LengthReached(length):
            return {"type": "length", "length": length}
        case Aborted(message, status):
            return {"type": "abort", "message": message, "status_code": status, "err_type": _kind(status)}


def _kind(status: int | None) -> str | None:
    return "INTERNAL_SERVER_ERROR" if status is not None else None


def spec_fields(generation: Generation) -> dict[str, Any]:
    """Return the request's own speculative counts; nothing where no verify step ran."""
    spec = generation.spec
    if not spec.verify_steps:
        return {}
    histogram = list(spec.histogram)
    while len(histogram) > 1 and not histogram[-1]:
        histogram.pop()
    return {
        "spec_accept_rate": spec.accepted / spec.proposed,
        "spec_accept_length": len(generation.output) / spec.verify_steps,
        "spec_num_correct_drafts": spec.accepted,
        "spec_num_proposed_drafts": spec.verify_steps * DRAFT_TOKENS,
        "spec_verify_ct": spec.verify_steps,
        "spec_correct_drafts_histogram": histogram,
    }


def cached_details(generation: Generation) -> dict[str, int] | None:
    """Return cached prompt tokens by tier; null where nothing was cached."""
    cached = generation.cached
    return {"device": cached.device, "host": cached.host} if cached.total else None


class GenerateWire:
    """One request's answer in the native dialect."""

    def __init__(self, generation: Generation, prefill: bool) -> None:
        """Render for a prefill or a decode worker."""
        self._generation = generation
        self._prefill = prefill
        self._sent_tokens = 0

    def __repr__(self) -> str:
        """Say how far the client has been told."""
        return f"<GenerateWire {self._sent_tokens} tokens sent>"

    def chunks(self) -> list[bytes]:
        """Return the events that tell what is new; [DONE] once the request has finished."""
        generation = self._generation
        grown = len(generation.output) > self._sent_tokens
        if not grown and not generation.finish:
            return []
        first, self._sent_tokens = self._sent_tokens == 0, len(generation.output)
        if first:
            generation.stamps.first_sent_wall = wall_s()
        body = [sse(self._content(streamed=True, first=first))]
        return [*body, DONE] if generation.finish else body

    def whole(self) -> tuple[int, bytes]:
        """Return status and body of an answer that is not streamed."""
        if error := failed(self._generation):
            status = error.status or 500
            return status, error_body(error.message, str(status), status)
        return 200, msgspec.json.encode(self._content(streamed=False, first=False))

    def _content(self, *, streamed: bool, first: bool) -> dict[str, Any]:
        generation = self._generation
        meta = self._common()
        if generation.finish:
            meta |= self._final(streamed=streamed)
        elif first:
            meta["response_sent_to_client_ts"] = generation.stamps.first_sent_wall
        return {"text": generation.text, "output_ids": generation.output, "meta_info": meta}

    def _common(self) -> dict[str, Any]:
        generation, stamps = self._generation, self._generation.stamps
        tokens = len(generation.output)
        versions = [{"version": WEIGHT_VERSION, "start": 0, "end": tokens}]
        return {
            "id": generation.asked.rid,
            "finish_reason": finish_reason(generation.finish),
            "prompt_tokens": len(generation.asked.prompt),
            "weight_version": WEIGHT_VERSION,
            "num_retractions": 0,
            **self._stations(),
            "queue_time": (stamps.forward or stamps.received) - (stamps.queued or stamps.received),
            "reasoning_tokens": 0,
            "completion_tokens": tokens,
            "cached_tokens": generation.cached.total,
            **({"weight_versions": versions} if generation.finish else {}),
            "cached_tokens_details": cached_details(generation),
            "dp_rank": None,
        }

    def _stations(self) -> dict[str, float | None]:
        stamps = self._generation.stamps
        if not self._prefill:
            return {"forward_entry_time": stamps.forward_wall}
        return {
            "storage_prefetch_wait": 0.0,
            "storage_staging_wait": 0.0,
            "forward_entry_time": stamps.forward_wall,
            "prefill_finished_time": stamps.prefill_finished_wall,
        }

    def _final(self, *, streamed: bool) -> dict[str, Any]:
        stamps = self._generation.stamps
        finished = stamps.finished or stamps.received
        sent = {"response_sent_to_client_ts": stamps.first_sent_wall if streamed else wall_s()}
        ended = {"request_finished_ts": stamps.finished_wall}
        return {
            "e2e_latency": finished - stamps.received,
            **spec_fields(self._generation),
            "request_received_ts": stamps.received_wall,
            "first_token_latency": (stamps.first_token or finished) - stamps.received,
            "api_server_dispatch_finish_ts": stamps.dispatched_wall,
            **(sent | ended if streamed else ended | sent),
        }
