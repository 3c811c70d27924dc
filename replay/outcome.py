"""A call that has ended, as the line that is kept of it."""

from typing import Final

from replay.client import Call
from replay.pacer import Due
from replay.results import Result

ROUTED: Final = b"x-smg-routed-worker-id"
"""The worker that answered, as smg tells it: in prefill-decode mode the decode worker."""
ATTEMPTS: Final = b"x-specguard-attempts"
DIGITS: Final = 6
"""Microseconds; the loop's own jitter is a hundred of them."""


def result_of(
    due: Due, call: Call, started_s: float, base: float, met: dict[str, dict[str, float]]
) -> Result:
    """What came of it; `base` is the run's start on the call's clock, `met` the load when it went out."""
    send, answer, sent_at = due.send, call.answer, call.sent_at
    sent_s = started_s if sent_at is None else sent_at - base
    origin = base + sent_s
    return Result(
        id=send.id,
        arm=send.arm,
        block=send.block,
        scheduled_s=round(due.at_s, DIGITS),
        sent_s=round(sent_s, DIGITS),
        ended_s=round(call.ended_at - base, DIGITS),
        ending=call.ending or "error",
        first_byte_s=None if call.first_at is None else round(call.first_at - base, DIGITS),
        chunk_s=[round(at - origin, DIGITS) for at in answer.times],
        status=call.status,
        error=call.error,
        text=answer.text,
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        cached_tokens=answer.cached_tokens,
        spec=answer.spec,
        steps=answer.steps,
        decode=_told(call, ROUTED),
        rid=answer.rid,
        attempts=_number(_told(call, ATTEMPTS)),
        met=met,
    )


def _told(call: Call, name: bytes) -> str | None:
    value = call.headers.get(name)
    return None if value is None else value.decode("latin-1")


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isascii() and value.isdigit() else None
