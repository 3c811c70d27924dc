"""SGLang's native `/generate`.

Growth of tokens comes with every event, so nothing needs to be asked for and nothing cut out again: only the
rid is put in. SGLang ends a stream on an error inside it with `{"error": {...}}` (our in-band form), on
an abort with a `finish_reason` object; a real HTTP error has the error's members flat in its body.

A heartbeat is an SSE comment, as on chat.
"""

from typing import Any, Final

import msgspec

from service.core.dialects import splice
from service.core.dialects.generate_reader import GenerateReader
from service.core.dialects.protocol import Outgoing, Reader
from service.core.dialects.wire import Schema, decode_request, first_rid
from service.core.events import UNKNOWN, RequestFacts

BAD_GATEWAY: Final = 502


class _Sampling(Schema):
    n: int | None = None
    max_new_tokens: int | None = None
    temperature: float | None = None
    json_schema: Any = None


class _Request(Schema):
    text: str | list[str] | None = None
    stream: bool | None = None
    rid: str | list[str] | None = None
    model: str | None = None
    input_ids: msgspec.Raw = msgspec.Raw(b"null")
    image_data: msgspec.Raw = msgspec.Raw(b"null")
    sampling_params: _Sampling | list[_Sampling] | None = None


_REQUEST: Final = msgspec.json.Decoder(_Request, strict=False)  # lax, as the engine's own reader is


class SGLangGenerate:
    """The dialect of `/generate`."""

    name: Final = "sglang_generate"
    path: Final = b"/generate"

    def request(self, body: bytes) -> RequestFacts:
        """Read a client's request. Raises `BadRequest`. A prompt given as ids alone reads as empty."""
        request = decode_request(_REQUEST, body)
        texts = request.text if isinstance(request.text, list) else [request.text or ""]
        sampling, prompt = _sampling(request), "\n".join(texts)
        return RequestFacts(
            dialect=self.name,
            model=request.model or "",
            stream=bool(request.stream),
            choices=max(1, sampling.n or 1) * max(1, len(texts)),
            max_tokens=UNKNOWN if sampling.max_new_tokens is None else sampling.max_new_tokens,
            temperature=1.0 if sampling.temperature is None else sampling.temperature,
            rid=first_rid(request.rid),
            prompt=prompt,
            wants_json=sampling.json_schema is not None,
            sealed={bytes(request.input_ids), bytes(request.image_data)} != {b"null"},
            shows_ids=True,
        )

    def outgoing(self, body: bytes, facts: RequestFacts, rid: str, *, ask_growth: bool) -> Outgoing:
        """With exactly this rid; growth comes unasked."""
        return Outgoing(splice.put(body, {} if rid == facts.rid else {"rid": rid}))

    def reader(self, facts: RequestFacts) -> Reader:
        return GenerateReader()

    def cut(self, event: bytes, outgoing: Outgoing) -> bytes:
        """Nothing was asked for, so nothing is cut."""
        return event

    def beat(self) -> bytes:
        """A comment: invisible to every reader of events, so it can never be taken for an answer."""
        return b": keep-alive\n\n"

    def refusal(self, status: int, reason: str, message: str) -> bytes:
        """The body of an HTTP error."""
        return msgspec.json.encode(
            {"object": "error", "message": message, "type": reason, "param": None, "code": status}
        )

    def in_band(self, reason: str, message: str) -> bytes:
        """The event that ends a stream loudly; `[DONE]` must not follow it."""
        error = {"message": message, "type": reason, "code": BAD_GATEWAY, "retryable": True}
        return b"data: " + msgspec.json.encode({"error": error}) + b"\n\n"


def _sampling(request: _Request) -> _Sampling:
    """The sampling parameters; of a batch's, the first stand for all."""
    sampling = request.sampling_params
    if isinstance(sampling, list):
        return sampling[0] if sampling else _Sampling()
    return sampling or _Sampling()
