import pytest

from service.core.endings import LOST, judge_ending
from service.core.events import CLEAN, Ending, Kind, Level, RequestFacts
from service.core.generation import Generation
from tests.service.core.toy import PLAIN, ToyDialect


def generation(**fields: object) -> Generation:
    made = Generation("r", RequestFacts("toy"), ToyDialect(), PLAIN, 0.0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    "fields", [{"finish": "stop"}, {"finish": "length"}, {"error": "X"}, {"malformed": 1}]
)
def test_a_finish_or_a_named_error_is_an_end(fields: dict[str, object]) -> None:
    assert judge_ending(generation(**fields)) is CLEAN


def test_no_finish_reason_is_truncation() -> None:
    verdict = judge_ending(generation(tokens=7))
    assert (verdict.level, verdict.kind, verdict.at_token) == (Level.CORRUPT, Kind.TRUNCATED, 7)


def test_the_engines_own_nan_is_believed() -> None:
    assert judge_ending(generation(finish="nan")).kind is Kind.GARBLED


def test_every_way_of_failing_has_words() -> None:
    assert set(LOST) == set(Ending)


def test_an_event_too_large_to_read_may_have_held_the_finish() -> None:
    made = generation()
    made.put(b"data: " + b"x" * (1 << 21) + b"\n\n", 0.0)
    made.look(0.0)
    assert judge_ending(made) is CLEAN
