"""Asks every sign, adds up the points of each cause, and ranks what is left.

A hint needs `POINTS_MIN` points net, and says all that speaks for and against it. Where no cause has them the
one hint says that telemetry has no evidence: that is what a slot with another request's valid KV looks like,
and it is not health. Pure; 60 us an incident.
"""

from typing import Final

from service.core.events import Hint
from service.core.hints.evidence import Evidence
from service.core.hints.flush import flush_step
from service.core.hints.signs import NEXT_STEPS, SIGNS, Cause, Sign

POINTS_MIN: Final = 2
LIKELY: Final = 5
POSSIBLE: Final = 3
HINTS_MAX: Final = 4


def explain(known: Evidence) -> tuple[Hint, ...]:
    """The likeliest cause first."""
    holding: dict[Cause, list[Sign]] = {}
    for sign in SIGNS:
        if sign.holds(known):
            holding.setdefault(sign.cause, []).append(sign)
    hints = [_hint(cause, signs, known) for cause, signs in holding.items()]
    ranked = sorted((hint for hint in hints if hint.points >= POINTS_MIN), key=lambda hint: -hint.points)
    return tuple(ranked[:HINTS_MAX]) or (_nothing(known),)


def _hint(cause: Cause, signs: list[Sign], known: Evidence) -> Hint:
    points = sum(sign.points for sign in signs)
    evidence = [sign.words for sign in signs if sign.points > 0]
    if cause is Cause.DEPLOY:
        evidence += [change.what for change in known.changes]
    strength = "likely" if points >= LIKELY else "possible" if points >= POSSIBLE else "weak"
    against = tuple(sign.words for sign in signs if sign.points < 0)
    return Hint(cause, strength, points, tuple(evidence), against, _next_step(cause, known))


def _nothing(known: Evidence) -> Hint:
    """What was looked at in vain."""
    looked = [
        "the counters of these workers did not move" if known.scraped else "these workers are not scraped"
    ]
    if known.acceptance_as_ever:
        looked.append("acceptance of these workers is as it was")
    if not known.words:
        looked.append("no check of the engine has spoken")
    return Hint(Cause.NONE, "none", 0, (), tuple(looked), _next_step(Cause.NONE, known))


def _next_step(cause: Cause, known: Evidence) -> str:
    return NEXT_STEPS[cause] + flush_step(cause, known)
