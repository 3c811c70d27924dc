from service.config.rules import load_rules
from service.core.detectors.zai import Zai
from service.core.events import Finding, Level, Look, RequestFacts, Step, WorkerFacts

SET = load_rules("zai")
(RULE,) = SET.detectors
assert isinstance(RULE, Zai)
FACTS = RequestFacts(dialect="t")


def alarm(*runs: tuple[Step, int]) -> tuple[int, Finding | None]:
    """Steps until the rule speaks."""
    state, count = RULE.start(FACTS, WorkerFacts()), 0
    for step, times in runs:
        for _ in range(times):
            count += 1
            if finding := RULE.look(state, Look(steps=(step,))):
                return count, finding
    return count, None


def test_refused_drafts_are_seen_after_128_tokens() -> None:
    steps, finding = alarm((Step(3, 0), 400))
    assert (steps, finding and finding.unit) == (129, "length")


def test_drafts_accepted_in_full_are_seen_too() -> None:
    steps, finding = alarm((Step(3, 3), 400))
    assert (steps, finding and finding.unit) == (33, "rate")


def test_a_collapse_late_in_a_request_takes_thousands_of_steps() -> None:
    _, finding = alarm((Step(3, 2), 660), (Step(3, 0), 2600))
    assert finding is None


def test_it_only_suspects() -> None:
    _, finding = alarm((Step(3, 0), 400))
    assert finding is not None
    assert SET.fusion.judge([finding]).level is Level.SUSPECT
