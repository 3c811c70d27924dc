"""The bank's prompts fit their slots, and what it says of a late write is what the lab would see."""

import pytest

from replay.lab.bank import ANSWER_TOKENS, PROMPT_PAGES, SLOT_PAGES, make_bank
from replay.lab.kvpool import pages_for
from replay.lab.speculation import DRAFT_TOKENS, reference_answer

BANK = make_bank(12, 3)


def test_answers_are_the_models_own_and_every_slot_has_the_same_size() -> None:
    for prompt in BANK.prompts:
        assert list(prompt.answer) == reference_answer(prompt.tokens, ANSWER_TOKENS)
        assert pages_for(len(prompt.tokens)) == PROMPT_PAGES
        assert pages_for(len(prompt.tokens) + ANSWER_TOKENS + DRAFT_TOKENS) == SLOT_PAGES
    assert BANK.steps == tuple(prompt.steps for prompt in BANK.prompts)
    assert len({prompt.tokens for prompt in BANK.prompts}) == len(BANK)


def test_the_same_seed_gives_the_same_prompts() -> None:
    make_bank.cache_clear()
    assert make_bank(12, 3).prompts == BANK.prompts
    assert make_bank(12, 4).prompts != BANK.prompts


@pytest.mark.parametrize("victim", [0, 5])
def test_a_prompt_over_itself_changes_nothing_and_no_answer_changes_after_its_end(victim: int) -> None:
    steps = BANK.prompts[victim].steps
    assert not BANK.changes(victim, victim, 1)
    assert not any(BANK.changes(victim, other, steps) for other in range(4))


def test_most_answers_change_while_steps_are_left_and_the_share_counts_only_answers_that_long() -> None:
    assert BANK.share_changed(2, 20, 1) >= 0.7
    assert BANK.share_changed(0, 10, 1) == 0
    assert BANK.share_changed(99, 10, 1) == 0
