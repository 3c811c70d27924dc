"""Judge what is already there: a recorded text, with or without its verify steps, or a captured response.

A text has no clock and no token counts. It is cut into pseudo-tokens (words of up to six letters, numbers of
up to three digits, single signs: about what a vocabulary would do) and fed as a stream would bring it, eight
events to a look, so that a record is judged as it would have been live. Steps, where given, are pairs of
(drafted, accepted), covering accepted + 1 tokens each. A model drafts in every step, be it to changing depth;
drafts that come and go are an n-gram drafter's, whose refusals say nothing.

`kind` names what a live stream would have been acted on for; a suspicion leaves it `normal` and shows in
`level` and `score`. Silence is not seen here, save tokens that are no text: a record has no clock.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from service.core.detectors.protocol import Detector
from service.core.dialects import OPENAI_CHAT, SGLANG_GENERATE
from service.core.dialects.protocol import Dialect
from service.core.endings import CERTAIN_LOG10_E
from service.core.events import UNKNOWN, Delta, Drafter, Kind, Level, RequestFacts, WorkerFacts
from service.core.fusion import Fusion
from service.core.inspector import Inspector
from service.core.sse import EventSplitter, payload

PSEUDO_TOKEN: Final = re.compile(r"\s*(?:[^\W\d_]{1,6}|\d{1,3}|[^\w\s]{1,3}|_+|\s+|.)", re.DOTALL)
CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

BATCH: Final = 8
"""Events to a look, as the monitor takes them."""

CHOICES: Final = 64
"""Choices read of a capture that shows a second one: it does not say how many were asked for."""

SECOND_CHOICE: Final = re.compile(rb'"index":\s*[1-9]')


class Verdict(msgspec.Struct, frozen=True):
    """What `specguard inspect` says of one record."""

    kind: Kind
    score: float  # log10 of the fused evidence, 0 for none
    detector: str
    at_token: int
    level: Level


class _CompletionChoice(msgspec.Struct):
    index: int = 0
    text: str = ""


class _Completion(msgspec.Struct):
    choices: list[_CompletionChoice]


class Rules(msgspec.Struct, frozen=True):
    """What judges: the detectors of a rule set and their fusion."""

    detectors: Sequence[Detector[Any]]
    fusion: Fusion


def judge_text(
    text: str, rules: Rules, *, prompt: str = "", steps: Sequence[tuple[int, int]] | None = None
) -> Verdict:
    """Judge one recorded answer."""
    facts = RequestFacts(dialect="recorded", prompt=prompt)
    inspector = Inspector(facts, _worker(steps or ()), rules.detectors, rules.fusion)
    deltas = list(_deltas(text, steps or ()))
    for start in range(0, len(deltas), BATCH):
        inspector.read(deltas[start : start + BATCH], 0.0)
    return _closed(inspector)


def judge_capture(
    data: bytes, rules: Rules, *, prompt: str = "", worker: WorkerFacts | None = None
) -> Verdict:
    """Judge a captured response: an SSE stream or one JSON body, of chat or of /generate."""
    dialect = dialect_of(data)
    facts = RequestFacts(dialect=dialect.name, choices=_choices(data), prompt=prompt)
    inspector = Inspector(facts, worker or WorkerFacts(), rules.detectors, rules.fusion)
    reader = dialect.reader(facts)
    if not is_stream(data):
        inspector.read(_completion(data) or reader.whole(data), 0.0)
        return _closed(inspector)
    splitter = EventSplitter()
    events = [*splitter.feed(data), splitter.rest()]
    payloads = [found for found in map(payload, events) if found is not None]
    deltas: list[Delta] = []
    for start in range(0, len(payloads), BATCH):
        looked = reader.read(payloads[start : start + BATCH])
        inspector.read(looked, 0.0)
        deltas += looked
    verdict = _closed(inspector)
    cut = bool(payloads) and not _ends(deltas)
    return _truncated(deltas) if cut and verdict.kind is Kind.NORMAL else verdict


def _ends(deltas: Sequence[Delta]) -> bool:
    """Whether a stream came to an end of its own, as far as it can be read: `[DONE]` alone proves nothing."""
    return any(delta.finish or delta.error or delta.malformed for delta in deltas)


def _truncated(deltas: Sequence[Delta]) -> Verdict:
    at_token = max((delta.tokens for delta in deltas), default=UNKNOWN)
    return Verdict(Kind.TRUNCATED, CERTAIN_LOG10_E, "ending", at_token, Level.CORRUPT)


def is_stream(data: bytes) -> bool:
    """Whether this is SSE; a JSON body starts with a bracket."""
    return data.lstrip()[:1] not in {b"{", b"["}


def dialect_of(data: bytes) -> Dialect:
    """The dialect a captured response is written in: /generate names `meta_info`, chat `choices`."""
    meta, choices = data.find(b'"meta_info"'), data.find(b'"choices"')
    return SGLANG_GENERATE if meta >= 0 and (choices < 0 or meta < choices) else OPENAI_CHAT


def _choices(data: bytes) -> int:
    return CHOICES if SECOND_CHOICE.search(data) else 1


def _completion(data: bytes) -> list[Delta]:
    """The texts of a body of /v1/completions, which no dialect speaks yet; empty for anything else."""
    if b'"text_completion"' not in data:
        return []
    try:
        body = msgspec.json.decode(data, type=_Completion)
    except msgspec.DecodeError:
        return []
    return [Delta(choice=choice.index, text=choice.text, finish="stop") for choice in body.choices]


def _closed(inspector: Inspector) -> Verdict:
    found = inspector.finish(0.0, clean=True)
    return Verdict(
        kind=found.kind if found.level is Level.CORRUPT else Kind.NORMAL,
        score=round(max(found.log10_e, 0.0), 2),
        detector=found.detector,
        at_token=found.at_token,
        level=found.level,
    )


def _worker(steps: Sequence[tuple[int, int]]) -> WorkerFacts:
    drafted = {pair[0] for pair in steps}
    if not drafted:
        return WorkerFacts()
    always = min(drafted) > 0
    return WorkerFacts(
        drafter=Drafter.MODEL if always else Drafter.NGRAM,
        draft_tokens=max(drafted),
        adaptive=len(drafted) > 1,
    )


def _deltas(text: str, steps: Sequence[tuple[int, int]]) -> Iterator[Delta]:
    """The text as events: one pseudo-token each, or one verify step each after the hand-off token."""
    pieces = PSEUDO_TOKEN.findall(text)
    sizes = iter([1, *(accepted + 1 for _, accepted in steps)])
    series = iter([(), *((accepted,) for _, accepted in steps)])
    done, tokens = 0, 0.0
    while done < len(pieces):
        size, exact = next(sizes, 1), next(series, ())
        piece = "".join(pieces[done : done + size])
        done += size
        tokens += size if steps else max(1.0, 0.6 * len(CJK.findall(piece)))
        yield Delta(text=piece, tokens=int(tokens), exact=exact)
    for rest in series:  # steps beyond the pseudo-tokens still count
        if rest:
            yield Delta(tokens=UNKNOWN, exact=rest)
