"""SGLang's `/v1/completions` on the wire.

    one chunk for each step, text or not [, sglext chunk] [, usage chunk], [DONE]

Unlike a chat it has an event for every step, so a request that emits <pad> for ever is seen: empty texts,
and the tokens themselves where `return_token_ids` is set. `usage` is null where nobody asked for it, as in
the engine's own serialisation.
"""

from typing import Any

import msgspec

from replay.lab.chat_wire import error_event, finish_name, sglext, usage
from replay.lab.generate_wire import DONE, WEIGHT_VERSION, error_body, failed, sse
from replay.lab.scheduler import Generation


class CompletionsWire:
    """One request's answer as a completion."""

    def __init__(self, generation: Generation) -> None:
        """Start with nothing sent."""
        self._generation = generation
        self._sent_tokens = 0
        self._sent_chars = 0

    def __repr__(self) -> str:
        """Say how far the client has been told."""
        return f"<CompletionsWire {self._sent_tokens} tokens sent>"

    def chunks(self) -> list[bytes]:
        """Return the events that tell what is new; [DONE] once the request has finished."""
        generation = self._generation
        if error := failed(generation):
            return [error_event(error), *self._closing()]
        grown = len(generation.output) > self._sent_tokens
        events = [sse(self._chunk())] if grown or generation.finish else []
        return [*events, *self._closing()] if generation.finish else events

    def whole(self) -> tuple[int, bytes]:
        """Return status and body of an answer that is not streamed."""
        generation = self._generation
        if error := failed(generation):
            status = error.status or 500
            return status, error_body(error.message, str(status), status)
        choice = self._choice(generation.asked.echo + generation.text, 0)
        body = {
            **self._head(),
            "choices": [choice],
            "usage": usage(generation),
            "metadata": {"weight_version": WEIGHT_VERSION},
        }
        return 200, msgspec.json.encode({**body, **sglext(generation)})

    def _chunk(self) -> dict[str, Any]:
        generation = self._generation
        first, before = self._sent_tokens == 0, self._sent_tokens
        text = generation.text[self._sent_chars :]
        choice = self._choice(generation.asked.echo + text if first else text, before)
        self._sent_tokens, self._sent_chars = len(generation.output), len(generation.text)
        counts = usage(generation) if generation.asked.continuous_usage else None
        return {**self._head(), "choices": [choice], "usage": counts}

    def _choice(self, text: str, from_token: int) -> dict[str, Any]:
        generation = self._generation
        name, matched = finish_name(generation.finish)
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": name, "matched_stop": matched}
        if generation.asked.token_ids:
            choice["token_ids"] = generation.output[from_token:]
            if from_token == 0:
                choice["prompt_token_ids"] = list(generation.asked.prompt)
        return choice

    def _closing(self) -> list[bytes]:
        generation, events = self._generation, []
        if extension := sglext(generation):
            events.append(sse({**self._head(), "choices": [], "usage": None, **extension}))
        if generation.asked.include_usage:
            counts = {name: count for name, count in usage(generation).items() if count is not None}
            events.append(sse({**self._head(), "choices": [], "usage": counts}))
        return [*events, DONE]

    def _head(self) -> dict[str, Any]:
        asked, created = self._generation.asked, int(self._generation.stamps.received_wall)
        return {"id": asked.rid, "object": "text_completion", "created": created, "model": asked.model}
