"""One answer of the lab's model under the real monitor: what was said of it, and what the client got of it.

No sockets: an answer that is known in full, step by step, becomes the events of a chat stream with token
growth, one a verify step, `STEP_S` apart on a clock of our own. What the monitor lets through is counted in
tokens of the events that left it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from replay.lab.tokenizer import EOS, Detokenizer
from service.core.desk import Desk
from service.core.detectors.protocol import Detector
from service.core.dialects import OPENAI_CHAT
from service.core.events import (
    Action,
    Ending,
    Fail,
    Forward,
    Judgement,
    Level,
    Policy,
    RequestFacts,
    Restart,
    WorkerFacts,
)
from service.core.fusion import Fusion
from service.core.monitor import Monitor
from service.core.policy import RoutePolicy

STEP_S: Final = 0.03
"""A decode step of a busy engine."""

TICK_S: Final = 0.25
DONE: Final = b"data: [DONE]\n\n"


class Setting(NamedTuple):
    """What guards."""

    detectors: Sequence[Detector[Any]]
    fusion: Fusion
    worker: WorkerFacts


class Seen(NamedTuple):
    """What became of one answer."""

    level: Level  # the worst that was said
    detector: str
    reason: str  # why it was taken back, or failed; "" where it went out
    delivered_tokens: int

    @property
    def acted(self) -> bool:
        return bool(self.reason) or self.level is Level.CORRUPT


def request(prompt: str) -> bytes:
    """A client's request that asks for growth itself, so that nothing is cut out of the answer."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    message = {"role": "user", "content": prompt}
    body: dict[str, Any] = {"model": "lab", "messages": [message], "temperature": 0, "stream": True}
    body["stream_options"] = options
    return json.dumps(body).encode()


def _event(text: str, tokens: int, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    usage = {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
    body = {"id": "c", "object": "chat.completion.chunk", "model": "lab", "choices": [choice], "usage": usage}
    return b"data: %b\n\n" % json.dumps(body).encode()


def events(answer: Sequence[int], accepted: Sequence[int]) -> Iterator[tuple[float, bytes, int]]:
    """When each event comes, its bytes, and the tokens so far; tokens without text bring none."""
    detokenizer, at = Detokenizer(), [0, 1]
    for grown in accepted:
        at.append(at[-1] + grown + 1)
    ends = [min(end, len(answer)) for end in at]
    for step, (start, end) in enumerate(pairwise(ends)):
        if text := "".join(map(detokenizer.feed, answer[start:end])):
            yield step * STEP_S, _event(text, end), end
    last = len(ends) * STEP_S
    yield last, _event("", len(answer), "stop" if EOS in answer else "length"), len(answer)
    yield last, DONE, len(answer)


def nothing(_now: float) -> None:
    """What else happens at a tick, where nothing does."""


class Client:
    """One guarded request."""

    def __init__(
        self,
        body: bytes,
        facts: RequestFacts,
        setting: Setting,
        policy: Policy,
        on_tick: Callable[[float], None] = nothing,
    ) -> None:
        self._on_tick = on_tick
        self.monitor = Monitor(
            facts=facts,
            dialect=OPENAI_CHAT,
            outgoing=OPENAI_CHAT.outgoing(body, facts, "0" * 32, ask_growth=True),
            route=RoutePolicy(policy=policy),
            desk=Desk(setting.detectors, setting.fusion),
            rid="0" * 32,
            now=0.0,
        )
        self.monitor.head(200, setting.worker, True, 0.0)  # noqa: FBT003 - as the proxy calls it
        self.reason = ""
        self.forwarded = 0  # events

    def __repr__(self) -> str:
        return f"<Client {self.monitor!r} {self.reason}>"

    def run(self, answer: Sequence[int], accepted: Sequence[int]) -> Seen:
        """The whole answer, or as much of it as the monitor suffers."""
        now, tokens = 0.0, [0]
        for at, data, total in events(answer, accepted):
            while now + TICK_S <= at and not self.reason:
                now += TICK_S
                self._on_tick(now)
                self._obey(self.monitor.tick(now))
            if self.reason:
                break
            tokens.append(total)
            self._obey(self.monitor.feed(data, at))
        if not self.reason:
            self._obey(self.monitor.end(Ending.COMPLETE, max(now, at)))
        said = self._worst()
        return Seen(said.level, said.detector, self.reason, tokens[min(self.forwarded, len(tokens) - 1)])

    def _obey(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Forward(data):
                    self.forwarded += data.count(b"\n\n")
                case Restart(reason):
                    self.reason = self.reason or reason
                case Fail():
                    self.reason = self.reason or "failed"

    def _worst(self) -> Judgement:
        """What stood against it when it ended, or was taken back."""
        attempts = self.monitor.record.attempts
        said = [self.monitor.judgement, *(attempt.judgement for attempt in attempts)]
        return max(said, key=lambda judgement: (judgement.level, judgement.log10_e))
