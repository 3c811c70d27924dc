import pytest

from service.core.events import (
    CLEAN,
    UNKNOWN,
    Delta,
    Judgement,
    Kind,
    Level,
    Look,
    RequestFacts,
)

TEXT = "Jane Doe 12345678"


@pytest.mark.parametrize(
    "said", [RequestFacts("openai_chat", prompt=TEXT), Delta(text=TEXT), Look(text=TEXT, tail=TEXT.encode())]
)
def test_nothing_that_carries_text_prints_it(said: object) -> None:
    assert TEXT not in repr(said)


def test_a_signature_is_what_and_who_and_of_what_but_not_where() -> None:
    early = Judgement(Level.CORRUPT, Kind.REPETITION, "loop", 7.0, at_token=90, unit="u")
    late = Judgement(Level.CORRUPT, Kind.REPETITION, "loop", 9.0, at_token=900, unit="u")
    other = Judgement(Level.CORRUPT, Kind.REPETITION, "loop", 7.0, at_token=90, unit="v")
    assert early.signature == late.signature != other.signature


def test_only_corruption_outranks_suspicion() -> None:
    assert Level.CLEAN < Level.SUSPECT < Level.CORRUPT
    assert CLEAN.level is Level.CLEAN


def test_a_count_that_nobody_told_is_no_count() -> None:
    assert UNKNOWN < 0
    assert Delta().tokens == UNKNOWN
