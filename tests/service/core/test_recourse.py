import pytest

from service.core.events import Judgement, Kind, Level, Policy, RequestFacts
from service.core.generation import Generation
from service.core.policy import RoutePolicy
from service.core.record import Record
from service.core.recourse import TOO_LARGE, Recourse
from service.core.retry import Refusal
from tests.service.core.toy import PLAIN, WORKER, ToyDialect, desk

BAD = Judgement(Level.CORRUPT, Kind.GARBLED, "text", 8.0, unit="bad")
SILENT = Judgement(Level.CORRUPT, Kind.SILENT, "silence", 8.0)


def means(policy: Policy = Policy.PROTECT, generations: int = 3) -> tuple[Recourse, Record]:
    shared, route = desk(), RoutePolicy(policy=policy, max_generations=generations)
    record = Record("r", RequestFacts("toy"), route, shared, 0.0)
    return Recourse(record, route, ToyDialect(), shared), record


def generation(judgement: Judgement = BAD) -> Generation:
    made = Generation("r", RequestFacts("toy"), ToyDialect(), PLAIN, 0.0)
    made.open(200, WORKER, streamed=True, desk=desk(), now=0.0)
    made.judgement = judgement
    return made


def test_released_bytes_cannot_be_taken_back() -> None:
    recourse, _ = means()
    assert recourse.refusal(generation(), released=True) is Refusal.RELEASED


def test_a_request_has_only_so_many_generations() -> None:
    recourse, _ = means(generations=1)
    assert recourse.refusal(generation(), released=False) is Refusal.GENERATIONS


def test_the_same_signature_twice_is_refused_another_is_not() -> None:
    recourse, _ = means()
    assert recourse.again(generation(), "verdict", 0.0, released=False)
    assert recourse.refusal(generation(), released=False) is Refusal.SIGNATURE
    other = Judgement(Level.CORRUPT, Kind.REPETITION, "loop", 8.0)
    assert recourse.refusal(generation(other), released=False) is None


def test_silence_names_no_unit_and_is_the_prompts_doing_only_when_every_generation_ends_in_it() -> None:
    recourse, _ = means(generations=3)
    assert recourse.again(generation(SILENT), "verdict", 0.0, released=False)
    assert recourse.again(generation(SILENT), "verdict", 0.0, released=False)
    assert recourse.refusal(generation(SILENT), released=False) is Refusal.SIGNATURE
    assert recourse.refusal(generation(BAD), released=False) is Refusal.GENERATIONS


@pytest.mark.parametrize("policy", list(Policy))
def test_only_observe_adds_nothing_to_a_broken_end(policy: Policy) -> None:
    recourse, _ = means(policy)
    fail = recourse.fail(TOO_LARGE, generation(), 0.0)
    assert (fail.in_band == b"") is (policy is Policy.OBSERVE)
    assert (fail.status, fail.retry_after_s) == (503, 1)


def test_what_it_knows_shows_without_text() -> None:
    assert repr(means()[0]) == "<Recourse after <Record 0 attempts>>"
