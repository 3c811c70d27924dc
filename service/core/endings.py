"""What the end of a response proves, and what each way of failing is called.

`[DONE]` and a clean end of the body do not prove success: a router writes them after a worker died. A finish
reason without an error does. `NaN happened` is the engine's own word that its logits were broken.
"""

from typing import Final

from service.core.events import CLEAN, Ending, Guilty, Judgement, Kind, Level
from service.core.generation import Generation

LOST: Final = {
    Ending.BROKEN: (502, Guilty.ENGINE, "broken_stream", "the response broke off before its end"),
    Ending.REFUSED: (503, Guilty.ROUTER, "router_unreachable", "the router does not answer"),
    Ending.TIMEOUT: (504, Guilty.ENGINE, "timeout", "no response within the time allowed"),
    Ending.COMPLETE: (502, Guilty.ENGINE, "empty_response", "the response ended before its head"),
}
"""Status, guilty side, reason and words for each way an upstream can fail."""

ENGINE_NAN: Final = "engine_nan"
CERTAIN_LOG10_E: Final = 9.0
"""What the engine itself says is not weighed."""


def judge_ending(generation: Generation) -> Judgement:
    """What the way a complete response ended says against it; CLEAN for nothing."""
    if generation.finish == "nan":
        return _verdict(Kind.GARBLED, ENGINE_NAN, generation.tokens)
    if not (generation.finish or generation.error or generation.unread):
        return _verdict(Kind.TRUNCATED, "ending", generation.tokens)
    return CLEAN


def _verdict(kind: Kind, detector: str, at_token: int) -> Judgement:
    return Judgement(Level.CORRUPT, kind, detector, CERTAIN_LOG10_E, at_token, at_token)
