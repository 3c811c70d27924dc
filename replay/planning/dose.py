"""The dose: a prefill backlog of a chosen size, whatever the samples do.

Reports say that it is the work queued in prefill that brings the corruption on, not the number of requests.
An injector holds it up, open loop: long prompts with an answer of one token, as many at once as make the
backlog, then one whenever prefill has done as much.

    at the start    ceil(backlog_tokens / prompt_tokens)
    then            one every  prompt_tokens / prefill_tokens_per_s

A dose is an arm's `knobs["dose"]`. What it sends is not counted: a long prompt is no sample of the traffic.
"""

from collections.abc import Iterator
from math import ceil

import msgspec

from replay.plan import Arm, PlanError, Recipe, Send


class Dose(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much, of what, and how fast prefill works it off."""

    backlog_tokens: int
    prompt_tokens: int
    prefill_tokens_per_s: float

    def __post_init__(self) -> None:
        """Refuse what is no dose."""
        if min(self.backlog_tokens, self.prompt_tokens, self.prefill_tokens_per_s) <= 0:
            raise ValueError("a dose has a backlog, prompts and a prefill rate above 0")


def dose_of(arm: Arm) -> Dose | None:
    """The dose of an arm, if it has one."""
    if "dose" not in arm.knobs:
        return None
    try:
        return msgspec.convert(arm.knobs["dose"], Dose)
    except msgspec.ValidationError as error:
        raise PlanError(f"arm {arm.name}: dose: {error}") from None


def injections(dose: Dose, arm: str, block: int, start_s: float, span_s: float, path: str) -> Iterator[Send]:
    """The long prompts of one block."""
    at_once = ceil(dose.backlog_tokens / dose.prompt_tokens)
    every_s = dose.prompt_tokens / dose.prefill_tokens_per_s
    recipe = Recipe(prompt_tokens=dose.prompt_tokens, output_tokens=1, salt=f"dose {block}")
    for number in range(at_once + int(span_s / every_s)):
        at_s = start_s + max(0, number - at_once + 1) * every_s
        name = f"dose.{block}.{number}"
        yield Send(id=name, arm=arm, block=block, at_s=at_s, path=path, recipe=recipe, role="dose")
