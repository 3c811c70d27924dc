"""Speculation: drafts change how fast tokens come, never which ones."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from replay.lab.model import Floats, TinyLM
from replay.lab.speculation import (
    DRAFT_TOKENS,
    RequestState,
    Speculator,
    cut,
    load_models,
    pages_needed,
    private_request,
    private_speculator,
    reference_answer,
    verify,
)
from replay.lab.tasks import KINDS, Task, answer_ok, sample
from replay.lab.tokenizer import EOS, decode

MAX_TOKENS = 128


class FixedOdds(TinyLM):
    """A target that gives the same odds at every place."""

    def __init__(self, odds: list[float]) -> None:
        with np.errstate(divide="ignore"):
            self.logits = np.log(np.array(odds, np.float32))

    def forward(
        self,
        tokens: object,
        start: int,
        pool: Floats,
        pages: object,
        *,
        last_only: bool = False,
        before: object = None,
    ) -> Floats:
        return np.tile(self.logits, (DRAFT_TOKENS + 1, 1))


def drawn(count: int, seed: int = 60) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [sample(rng, KINDS[at % len(KINDS)]) for at in range(count)]


def started(task: Task, temperature: float = 0.0, seed: int = 0) -> tuple[Speculator, RequestState]:
    request = private_request(task.prompt_ids, MAX_TOKENS)
    request.temperature, request.rng = temperature, np.random.default_rng(seed)
    speculator = private_speculator(*load_models(), len(request.target_pages))
    speculator.prefill(request)
    return speculator, request


def accepted_per_step(speculator: Speculator, request: RequestState) -> Iterator[int]:
    while EOS not in request.answer and len(request.answer) < MAX_TOKENS:
        yield speculator.step(request).accepted


def finished(speculator: Speculator, request: RequestState) -> list[int]:
    list(accepted_per_step(speculator, request))
    return cut(request.answer, MAX_TOKENS)


def distinct_3_grams(ids: list[int]) -> float:
    grams = [tuple(ids[at : at + 3]) for at in range(len(ids) - 2)]
    return len(set(grams)) / len(grams)


def test_clean_answers_are_right_and_do_not_loop() -> None:
    answers = [(task, reference_answer(task.prompt_ids, MAX_TOKENS)) for task in drawn(60)]
    assert np.mean([answer_ok(task, decode(answer)) for task, answer in answers]) >= 0.98
    assert min(distinct_3_grams(answer) for _, answer in answers) >= 0.8


def test_the_draft_is_accepted_as_often_as_a_good_draft_model_is() -> None:
    rates = []
    for task in drawn(60):
        *counts, _ = accepted_per_step(*started(task))  # the last step is cut short by <eos>
        rates.append(np.mean(counts) / DRAFT_TOKENS)
    assert 0.65 <= np.mean(rates) <= 0.8
    assert np.quantile(rates, 0.05) >= 0.5


def test_drafts_do_not_change_the_greedy_answer() -> None:
    for task in drawn(8):
        speculator, request = started(task)
        alone, plain = started(task)
        while EOS not in plain.answer and len(plain.answer) < MAX_TOKENS:
            plain.tokens += verify(alone.target, plain, alone.target_pool, [])[1]
        assert finished(speculator, request) == cut(plain.answer, MAX_TOKENS)


def test_a_corrupted_draft_pool_costs_speed_and_no_token() -> None:
    for task in drawn(4):
        speculator, request = started(task)
        speculator.draft_pool[:] = np.nan
        assert max(accepted_per_step(speculator, request)) == 0
        assert cut(request.answer, MAX_TOKENS) == reference_answer(task.prompt_ids, MAX_TOKENS)


def test_nan_in_the_target_s_pages_gives_token_zero_for_ever() -> None:
    speculator, request = started(drawn(1)[0])
    speculator.target_pool[2, 0, 1, 3] = np.nan
    results = [speculator.step(request) for _ in range(20)]
    assert {result.accepted for result in results} == {0}
    assert {result.new_tokens for result in results} == {(0,)}
    assert not decode(request.answer[1:])


def test_nan_in_both_pools_is_accepted_in_full() -> None:
    speculator, request = started(drawn(1)[0])
    speculator.target_pool[:] = np.nan
    speculator.draft_pool[:] = np.nan
    assert speculator.step(request).new_tokens == (0,) * (DRAFT_TOKENS + 1)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_request_answers_the_same_alone_and_among_others(temperature: float) -> None:
    tasks = drawn(3)
    alone = [finished(*started(task, temperature, seed=9)) for task in tasks]
    pages = pages_needed(350)
    target, draft = load_models()
    speculator = private_speculator(target, draft, 3 * pages)
    requests = [
        RequestState(
            list(task.prompt_ids),
            len(task.prompt_ids),
            range(at, 3 * pages, 3),
            range(at, 3 * pages, 3),
            temperature,
            np.random.default_rng(9),
        )
        for at, task in enumerate(tasks)
    ]
    for request in requests:
        speculator.prefill(request)
    for _ in range(MAX_TOKENS):
        for request in (
            each for each in requests if EOS not in each.answer and len(each.answer) < MAX_TOKENS
        ):
            speculator.step(request)
    assert [cut(request.answer, MAX_TOKENS) for request in requests] == alone


def test_a_seed_decides_a_sampled_answer() -> None:
    task = drawn(1)[0]
    answers = [finished(*started(task, temperature=3.0, seed=seed)) for seed in (1, 1, 2)]
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


@pytest.mark.parametrize("draft", [0, 2])
def test_sampling_keeps_the_target_s_odds_whatever_the_draft(draft: int) -> None:
    odds = [0.5, 0.3, 0.15, 0.05]
    request = private_request([1, 1], 9)
    request.temperature, request.rng = 1.0, np.random.default_rng(4)
    target, pool, tries = FixedOdds(odds), np.zeros(0, np.float32), 8000
    firsts = Counter(verify(target, request, pool, [draft] * DRAFT_TOKENS)[1][0] for _ in range(tries))
    for token, share in enumerate(odds):
        assert abs(firsts[token] / tries - share) < 4 * (share * (1 - share) / tries) ** 0.5


def test_a_draft_that_the_target_rules_out_is_never_accepted() -> None:
    request = private_request([1, 1], 9)
    request.temperature = 1.0
    target, pool = FixedOdds([0.5, 0.5, 0.0]), np.zeros(0, np.float32)
    assert all(verify(target, request, pool, [2, 2, 2, 2])[0] == 0 for _ in range(50))


def test_nan_logits_give_token_zero_when_sampling() -> None:
    request = private_request([1, 1], 9)
    request.temperature = 0.8
    target = FixedOdds([0.5, float("nan"), 0.5])
    assert verify(target, request, np.zeros(0, np.float32), [1, 1, 1, 1]) == (0, [0])
    assert verify(target, request, np.zeros(0, np.float32), []) == (0, [0])


def test_a_verify_step_of_a_full_request_stays_within_its_pages() -> None:
    assert pages_needed(12) == 1
    assert pages_needed(13) == 2


def test_an_answer_ends_at_eos_or_at_its_limit() -> None:
    assert cut([5, 6, EOS, 7], 10) == [5, 6, EOS]
    assert cut([5, 6, EOS, 7], 2) == [5, 6]


def test_repr_shows_counts_and_no_token() -> None:
    assert repr(private_request([77, 78], 9)) == "<RequestState prompt 2, answer 0 tokens>"
