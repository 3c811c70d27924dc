"""The n-gram drafter continues what has been there before, and the answers stay the target's own."""

from hypothesis import given
from hypothesis import strategies as st

from replay.lab.ngram import Drafter, lookup
from replay.lab.speculation import (
    cut,
    load_models,
    private_request,
    private_speculator,
    reference_answer,
)
from tests.replay.lab.labkit import prompt

tokens = st.lists(st.integers(0, 5), min_size=1, max_size=40)


def test_the_latest_place_of_the_longest_match_is_continued() -> None:
    assert lookup([1, 2, 3, 4, 9, 2, 3, 7, 8, 2, 3], 2) == [7, 8]
    assert lookup([1, 2, 3, 4, 9, 9, 2, 3, 7, 8, 1, 2, 3], 2) == [4, 9]


def test_without_a_match_there_is_no_draft() -> None:
    assert lookup([1, 2, 3, 4], 4) == []
    assert lookup([1], 4) == []


def test_a_loop_is_continued_for_as_long_as_asked() -> None:
    assert lookup([7, 1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]
    assert lookup([0, 0, 0], 4) == [0, 0, 0, 0]


@given(tokens, st.integers(1, 6))
def test_a_draft_is_as_long_as_asked_or_empty_and_says_what_was_there(text: list[int], count: int) -> None:
    draft = lookup(text, count)
    assert len(draft) in {0, count}
    if draft:
        assert draft[0] in text
        assert text[-1] in text[:-1]


def test_the_answer_does_not_depend_on_who_drafts() -> None:
    accepted = []
    for seed in range(4):
        request = private_request(prompt(seed), 120)
        speculator = Drafter().speculator(private_speculator(*load_models(), len(request.target_pages)))
        speculator.prefill(request)
        while len(request.answer) < 120 and 2 not in request.answer:
            accepted.append(speculator.step(request).accepted)
        assert cut(request.answer, 120) == reference_answer(prompt(seed), 120)
    assert 0.4 < sum(accepted) / len(accepted) / 4 < 0.95
