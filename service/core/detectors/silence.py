"""Silence: the stream says nothing while the request still runs, or tokens grow that are not text.

The face of NaN in the wild: argmax falls on a token that the detokenizer drops, so that chat sends no event
at all and `/generate` repeats an unchanged text (capture: 31 of 56 tokens were id 0, unseen). Three signs:

    quiet for max(quiet_s, gap_factor x median gap) after at least two data events     -> acts
    quiet for handoff_s after the very first event (the hand-off to decode may queue)  -> acts
    no event at all for first_event_s: prefill may be long                             -> suspects only
    more than grown_tokens reported beyond the last event that brought text            -> acts

No null model: a healthy engine can stall (retraction, a long prefill beside the decode). The strength given
is a decision, not a measurement; the limits are the product's. Cost: 0.2 us a look, O(1) state.
"""

from dataclasses import dataclass
from typing import ClassVar

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts


class SilenceState:
    """Whether anything was heard, and what was said about it."""

    __slots__ = ("heard", "said", "text_token")

    def __init__(self) -> None:
        self.heard = False
        self.said = 0.0
        self.text_token = UNKNOWN


@dataclass(frozen=True, slots=True)
class Silence:
    """Parameters as they stand in the rule set under `silence`."""

    quiet_s: float
    gap_factor: float
    handoff_s: float
    first_event_s: float
    grown_tokens: int
    acts_log10: float
    suspects_log10: float

    name: ClassVar[str] = "silence"
    channel: ClassVar[Channel] = Channel.SILENCE

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> SilenceState:
        return SilenceState()

    def look(self, state: SilenceState, look: Look) -> Finding | None:
        if look.grown > self.grown_tokens:
            return self._say(state, look, self.acts_log10)
        if look.quiet_s <= 0:
            state.heard = True
            state.text_token = look.tokens
            return None
        return self._quiet(state, look)

    def _quiet(self, state: SilenceState, look: Look) -> Finding | None:
        if not state.heard:
            return self._say(state, look, self.suspects_log10) if look.quiet_s > self.first_event_s else None
        limit = max(self.quiet_s, self.gap_factor * look.gap_s) if look.gap_s > 0 else self.handoff_s
        return self._say(state, look, self.acts_log10) if look.quiet_s > limit else None

    def _say(self, state: SilenceState, look: Look, strength: float) -> Finding | None:
        if strength <= state.said:
            return None
        state.said = strength
        return Finding(self.name, self.channel, Kind.SILENT, strength, look.tokens, state.text_token)
