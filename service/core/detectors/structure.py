"""Structure: what the protocol itself shows to be impossible. Judged when a choice has ended.

    arguments   a tool call whose arguments are no JSON: cut off although the engine says that the answer is
                complete (truncated), or broken inside, as when two calls ran into each other (garbled)
    json        an answer that the client asked to be JSON and that is none
    prompt      the engine counts far fewer prompt tokens than the prompt can have: it read something else
    empty       a finish reason of "length" and not one token
    fence       a clean end inside a code fence: it may be the model's own doing, so suspicion only

An answer that stops at its own token limit may be cut anywhere; that says nothing. No null model: JSON is
what a grammar or a trained model writes, so that the strength given is a decision. Cost: 0.1 us a look; a
tool call's arguments are kept (64 KiB at most) and read once, 1 us a KB. State: those, and two numbers.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts

KEPT_CHARS: Final = 65_536
"""Of a longer call nothing is said."""

CALLS_MAX: Final = 64
FENCE: Final = b"```"
LIMIT: Final = frozenset({"length", "max_tokens"})
CUT_OFF: Final = "truncated"
"""What msgspec says of a JSON text that ends too early."""


class StructureState:
    """The tool calls of one choice so far."""

    __slots__ = ("calls", "facts", "kept", "prompt_tokens", "said")

    def __init__(self, facts: RequestFacts) -> None:
        self.facts = facts
        self.calls: dict[int, list[str]] = {}  # arguments by the call's index
        self.kept = 0  # characters of them
        self.prompt_tokens = UNKNOWN
        self.said = 0.0


@dataclass(frozen=True, slots=True)
class Structure:
    """Parameters as they stand in the rule set under `structure`."""

    chars_per_token: int
    prompt_chars: int
    acts_log10: float
    suspects_log10: float

    name: ClassVar[str] = "structure"
    channel: ClassVar[Channel] = Channel.STRUCTURE

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> StructureState:
        return StructureState(facts)

    def look(self, state: StructureState, look: Look) -> Finding | None:
        if look.calls:
            self._keep(state, look)
        if look.prompt_tokens != UNKNOWN:
            state.prompt_tokens = look.prompt_tokens
        if not look.ended or state.said >= self.acts_log10:
            return None
        sign, kind = self._sign(state, look)
        strength = self.suspects_log10 if sign == "fence" else self.acts_log10
        if not sign or strength <= state.said:
            return None
        state.said = strength
        return Finding(self.name, self.channel, kind, strength, look.tokens, UNKNOWN, sign)

    def _keep(self, state: StructureState, look: Look) -> None:
        for index, piece in look.calls:
            state.kept += len(piece)
            if state.kept <= KEPT_CHARS and (index in state.calls or len(state.calls) < CALLS_MAX):
                state.calls.setdefault(index, []).append(piece)
        if state.kept > KEPT_CHARS:
            state.calls.clear()

    def _sign(self, state: StructureState, look: Look) -> tuple[str, Kind]:
        """What is wrong, and of what kind it is."""
        facts = state.facts
        if look.finish in LIMIT:
            nothing = look.tokens == 0 and facts.max_tokens != 0
            return ("empty", Kind.TRUNCATED) if nothing else ("", Kind.NORMAL)
        if self._misread(facts, state.prompt_tokens):
            return "prompt", Kind.TRUNCATED
        faults = (fault("".join(pieces)) for pieces in state.calls.values())
        if found := next((kind for kind in faults if kind is not Kind.NORMAL), None):
            return "arguments", found
        return (
            self._text_sign(facts, look) if look.finish and look.size <= len(look.tail) else ("", Kind.NORMAL)
        )

    def _text_sign(self, facts: RequestFacts, look: Look) -> tuple[str, Kind]:
        """The same of a whole text that the engine calls complete."""
        if facts.wants_json and bytes(look.tail.lstrip()[:1]) in {b"{", b"["}:
            kind = fault(look.tail.decode("utf-8", "ignore"))
            return ("json", kind) if kind is not Kind.NORMAL else ("", kind)
        return ("fence", Kind.TRUNCATED) if look.tail.count(FENCE) % 2 else ("", Kind.NORMAL)

    def _misread(self, facts: RequestFacts, prompt_tokens: int) -> bool:
        """Whether so few tokens can be no reading of this prompt."""
        if prompt_tokens < 0 or facts.sealed or len(facts.prompt) < self.prompt_chars:
            return False
        return prompt_tokens * self.chars_per_token < len(facts.prompt)


def fault(text: str) -> Kind:
    """What is wrong with a JSON text: cut off (truncated), broken inside (garbled), or nothing."""
    if not text.strip():
        return Kind.NORMAL
    try:
        msgspec.json.decode(text.encode("utf-8", "replace"))
    except msgspec.DecodeError as broken:
        return Kind.TRUNCATED if CUT_OFF in str(broken) else Kind.GARBLED
    except RecursionError:
        return Kind.NORMAL
    return Kind.NORMAL
