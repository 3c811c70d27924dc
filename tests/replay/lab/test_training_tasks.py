"""Training batches are the same for the same seed, whole, masked at the answers, and mixed as asked."""

import itertools

import pytest

from replay.lab.tasks import KINDS
from replay.lab.tokenizer import EOS, PAD, decode
from replay.lab.training_tasks import Batches, agent_steps, collate

EVEN = (0.25,) * len(KINDS)
BATCH_TOKENS = 2048


def test_the_same_seed_gives_the_same_batches_and_another_gives_others() -> None:
    one, again, other = (Batches(seed, BATCH_TOKENS, EVEN) for seed in (3, 3, 4))
    for _ in range(3):
        tokens, mask = one.next(1.0, 0.25)
        same = again.next(1.0, 0.25)
        assert (tokens.tobytes(), mask.tobytes()) == (same[0].tobytes(), same[1].tobytes())
        assert tokens.tobytes() != other.next(1.0, 0.25)[0].tobytes()


@pytest.mark.parametrize(("scale", "agents"), [(0.25, 0.0), (1.0, 0.0), (1.0, 1.0)])
def test_a_batch_stays_within_its_tokens_and_every_answer_ends_under_the_mask(
    scale: float, agents: float
) -> None:
    batches = Batches(0, BATCH_TOKENS, EVEN)
    for _ in range(20):
        tokens, mask = batches.next(scale, agents)
        assert tokens.size <= BATCH_TOKENS
        assert mask.shape == (tokens.shape[0], tokens.shape[1] - 1)
        ends = (tokens[:, 1:] == EOS) & mask
        assert (ends.sum(1) == 1).all()


def test_the_mask_is_of_the_places_before_the_answers_tokens() -> None:
    tokens, mask = collate([((1, 7, 8), (9, EOS)), ((1, 5), (6, 6, 6, 6, EOS))])
    assert tokens.tolist() == [[1, 7, 8, 9, EOS, PAD, PAD], [1, 5, 6, 6, 6, 6, EOS]]
    assert [tokens[row, 1:][mask[row]].tolist() for row in (0, 1)] == [[9, EOS], [6, 6, 6, 6, EOS]]


def test_steps_of_agents_come_from_the_whole_length_of_a_session() -> None:
    lengths = [len(prompt) for prompt, _ in itertools.islice(agent_steps(1), 24)]
    assert min(lengths) < 130
    assert max(lengths) > 300


@pytest.mark.parametrize(("agents", "asked"), [(0.0, "repeat the block"), (1.0, "get fields:")])
def test_tasks_are_of_the_kinds_that_weigh_and_of_agents_as_asked(agents: float, asked: str) -> None:
    batches = Batches(0, BATCH_TOKENS, (1.0, 0.0, 0.0, 0.0))
    rows = [row for _ in range(5) for row in batches.next(1.0, agents)[0]]
    assert all(asked in decode(row.tolist()) for row in rows)
