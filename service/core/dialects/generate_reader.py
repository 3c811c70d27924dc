"""Reads SGLang's `/generate` events, whose text, ids and lists repeat from the start in every event.

Decoding them whole would cost O(n^2) over a stream. Of a stream known to be cumulative only four places are
looked at: the bytes before the end of the text seen so far (the seam: they must be the old ones), the text
after it up to `","output_ids":`, the new ids, and `meta_info` at the end. A quote in a JSON string is always
escaped, so those marks never occur inside text. Whatever does not fit is decoded whole, and so are the small
events of a server run with `--incremental-streaming-output`; which of the two it is, the number of ids
against `completion_tokens` tells at each event decoded whole.

The probe in the engine adds `meta_info.specguard_accepted`: the accepted drafts of each verify step so far.
An incremental server slices that list by tokens, not steps, so there it is not read.

Cost: 2.7 us an event at 650 bytes, 16 us at 40 KB (decoded whole: 340 us).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from service.core.dialects.wire import (
    NAN_FINISH,
    NAN_STOP,
    UNDECODABLE,
    UNREADABLE,
    Error,
    Schema,
    decode_all,
    decode_one,
    error_type,
)
from service.core.events import UNKNOWN, Cached, Delta

DONE: Final = b"[DONE]"
SEAM_BYTES: Final = 64  # enough that a rewritten text cannot look like a longer one, but for a loop's
_TEXT: Final = b'{"text":"'
_AFTER_TEXT: Final = b'","output_ids":'
_META: Final = b'"meta_info":{'
_NO_LIST: Final = msgspec.Raw(b"")


class _Finish(Schema):
    type: str | None = None
    matched: Any = None
    status_code: Any = None
    err_type: Any = None


class _Meta(Schema):
    finish_reason: _Finish | str | None = None
    completion_tokens: int | None = None
    specguard_accepted: msgspec.Raw = _NO_LIST
    spec_num_correct_drafts: int | None = None
    spec_verify_ct: int | None = None


class _Tail(Schema):
    """An event from `meta_info` on."""

    meta_info: _Meta | None = None
    index: int = 0


class _Tiers(Schema):
    host: int = 0
    storage: int = 0


class _FirstMeta(_Meta):
    """What is read of an event that is decoded whole, as the first one is."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    cached_tokens_details: _Tiers | None = None


class _Event(_Tail):
    meta_info: _FirstMeta | None = None
    text: str | None = None
    output_ids: msgspec.Raw = _NO_LIST
    error: Any = None


_TAIL: Final = msgspec.json.Decoder(_Tail)
_TAILS: Final = msgspec.json.Decoder(list[_Tail])
_EVENT: Final = msgspec.json.Decoder(_Event)
_EVENTS: Final = msgspec.json.Decoder(list[_Event])
_ERROR: Final = msgspec.json.Decoder(Error)
_STRING: Final = msgspec.json.Decoder(str)
_COUNTS: Final = msgspec.json.Decoder(list[int])


class _Growing:
    """A list of small numbers that each event repeats from the start."""

    __slots__ = ("_count", "_end", "_seam")

    def __init__(self) -> None:
        self._count = 0
        self._end = 0  # of the bytes before the closing bracket
        self._seam = b""

    def new(self, raw: bytes | memoryview) -> tuple[int, ...]:
        """What has been added; nothing where this is no list of numbers. Only what is new is copied."""
        end = self._end
        try:
            if end and raw[max(0, end - SEAM_BYTES) : end] == self._seam:
                new = _COUNTS.decode(b"[%b]" % bytes(raw[end:-1]).lstrip(b","))
            else:
                new = _COUNTS.decode(raw)[self._count :]
        except UNDECODABLE:
            return ()
        self._count += len(new)
        self._end = len(raw) - 1 if self._count else 0
        self._seam = bytes(raw[max(0, self._end - SEAM_BYTES) : self._end])
        return tuple(new)


class _Progress:
    """How far one choice has come."""

    __slots__ = ("_ids", "_steps", "chars", "cumulative", "seam", "text_end", "tokens")

    def __init__(self) -> None:
        self.cumulative = False  # known to be; not before its second event
        self.tokens = 0
        self.chars = 0
        self.text_end = 0  # where the raw text ended in the last event; 0: not where we look for it
        self.seam = b""
        self._ids, self._steps = _Growing(), _Growing()

    def advance(self, payload: bytes, end: int, chars: int) -> None:
        self.text_end, self.chars = end, chars
        self.seam = payload[max(0, end - SEAM_BYTES) : end]

    def new_text(self, payload: bytes) -> str | None:
        """What has been added to the text; None where only a whole decode can tell."""
        end = self.text_end
        if not self.cumulative or not end or payload[max(0, end - SEAM_BYTES) : end] != self.seam:
            return None
        after = payload.find(_AFTER_TEXT, end)
        try:
            text = _STRING.decode(b'"%b"' % payload[end:after]) if after >= 0 else None
        except UNDECODABLE:  # half of an escape or of a surrogate pair had come, or a bracket moved
            return None
        if text is not None:
            self.advance(payload, after, self.chars + len(text))
        return text

    def text_of(self, payload: bytes, event: _Event, meta: _Meta) -> str:
        """The new text of an event that was decoded whole."""
        text = event.text or ""
        self.cumulative = self.tokens > 0 and self._is_cumulative(event, text, meta.completion_tokens)
        before = self.chars if self.cumulative else 0
        end = payload.find(_AFTER_TEXT, len(_TEXT)) if payload.startswith(_TEXT) else -1
        self.advance(payload, max(0, end), len(text) if self.cumulative else self.chars + len(text))
        return text[before:]

    def delta(self, index: int, text: str, meta: _Meta, ids: bytes | memoryview) -> Delta:
        """The event's delta; from here on its tokens are the old ones."""
        counts = bytes(meta.specguard_accepted)
        growing = self.cumulative or not self.tokens
        exact = self._steps.new(counts) if counts and growing else ()
        said = (self._ids if growing else _Growing()).new(ids)
        finish, error = _ending(meta.finish_reason)
        if meta.completion_tokens is not None:
            self.tokens = meta.completion_tokens
        return Delta(
            choice=index,
            text=text,
            tokens=UNKNOWN if meta.completion_tokens is None else meta.completion_tokens,
            finish=finish,
            error=error,
            exact=exact,
            accepted=UNKNOWN if meta.spec_num_correct_drafts is None else meta.spec_num_correct_drafts,
            steps=UNKNOWN if meta.spec_verify_ct is None else meta.spec_verify_ct,
            ids=said,
        )

    def _is_cumulative(self, event: _Event, text: str, tokens: int | None) -> bool:
        """As many ids as tokens in all, or only as many as are new? Whichever is nearer."""
        ids = bytes(event.output_ids)
        if len(ids) <= len(b"[]") or tokens is None:
            return len(text) >= self.chars
        return 2 * (ids.count(b",") + 1) > tokens + (tokens - self.tokens)


class GenerateReader:
    """Reads one attempt's response."""

    __slots__ = ("_progress", "cached")

    def __init__(self) -> None:
        self._progress: dict[int, _Progress] = {}
        self.cached = Cached()

    def read(self, payloads: Sequence[bytes]) -> list[Delta]:
        """One delta an event; none for `[DONE]`."""
        if payloads and payloads[-1] == DONE:
            payloads = payloads[:-1]
        marks = [payload.rfind(_META) for payload in payloads]
        tails = [
            b"{" + payload[at:] if at > 0 else b"{}" for payload, at in zip(payloads, marks, strict=True)
        ]
        deltas: list[Delta] = []
        for payload, tail, mark in zip(payloads, decode_all(_TAILS, _TAIL, tails), marks, strict=True):
            progress = (
                self._progress.get(tail.index) if tail is not None and tail.meta_info is not None else None
            )
            text = progress.new_text(payload) if progress is not None else None
            if tail is None or tail.meta_info is None or progress is None or text is None:
                deltas += self._read_whole(payload)
            else:
                ids = memoryview(payload)[progress.text_end + len(_AFTER_TEXT) : mark - 1]
                deltas.append(progress.delta(tail.index, text, tail.meta_info, ids))
        return deltas

    brief = read

    def whole(self, body: bytes) -> list[Delta]:
        """A non-streamed body: an object, or a list of them for several choices."""
        listed = body.lstrip().startswith(b"[")
        try:
            events = _EVENTS.decode(body) if listed else [_EVENT.decode(body)]
        except UNDECODABLE:
            return [UNREADABLE]
        self.cached = _cached(events[0].meta_info) if events else self.cached
        return [_whole(event, choice, body) for choice, event in enumerate(events)]

    def _read_whole(self, payload: bytes) -> list[Delta]:
        event = decode_one(_EVENT, payload)
        if event is None:
            return [] if payload in {b"", DONE} else [UNREADABLE]
        if error := _error(event, payload):
            return [Delta(event.index, error=error)]
        if event.text is None and event.meta_info is None:
            return []
        progress = self._progress.setdefault(event.index, _Progress())
        meta = event.meta_info or _Meta()
        self.cached = _cached(event.meta_info) if event.meta_info is not None else self.cached
        text = progress.text_of(payload, event, meta)
        return [progress.delta(event.index, text, meta, bytes(event.output_ids))]


def _cached(meta: _FirstMeta | None) -> Cached:
    if meta is None or meta.cached_tokens is None:
        return Cached()
    tiers = meta.cached_tokens_details
    return Cached(
        UNKNOWN if meta.prompt_tokens is None else meta.prompt_tokens,
        meta.cached_tokens,
        UNKNOWN if tiers is None else tiers.host,
        UNKNOWN if tiers is None else tiers.storage,
    )


def _whole(event: _Event, choice: int, body: bytes) -> Delta:
    error = _error(event, body)
    if error or event.meta_info is None:
        return Delta(choice, error=error, malformed=not error)
    return _Progress().delta(choice, event.text or "", event.meta_info, bytes(event.output_ids))


def _error(event: _Event, payload: bytes) -> str:
    """The type of an error event, in either form; "" for any other event."""
    if event.error is not None:
        return error_type(event.error)
    if event.text is None and event.meta_info is None:
        flat = decode_one(_ERROR, payload)
        return error_type({"type": flat.type}) if flat is not None and flat.object == "error" else ""
    return ""


def _ending(finish: _Finish | str | None) -> tuple[str, str]:
    """Finish reason and error. An abort with a status code is how SGLang tells an error here."""
    if finish is None or isinstance(finish, str):
        return finish or "", ""
    if finish.matched == NAN_STOP:
        return NAN_FINISH, ""
    error = "" if finish.status_code is None else error_type({"type": finish.err_type})
    return finish.type or "", error
