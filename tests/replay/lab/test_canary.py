"""Canaries tell whose answer it is; the class of a text never needs a reader."""

import numpy as np
import pytest

from replay.lab.canary import TextClass, Witness, canaries, classify
from replay.lab.tasks import Task, sample
from replay.lab.tokenizer import EOS, FIXED, PAD, UNK


def task(seed: int) -> Task:
    return sample(np.random.default_rng(seed), "extract")


def test_a_right_answer_holds_its_own_canaries_and_nobody_elses() -> None:
    tasks = [task(seed) for seed in range(40)]
    witness = Witness()
    for at, one in enumerate(tasks):
        assert len(canaries(one.answer_ids)) >= 4
        witness.know(str(at), one)
    for at, one in enumerate(tasks):
        assert witness.leaked_from(str(at), one, one.answer_ids) is None
        assert witness.leaked_from("stranger", one, tasks[at - 1].answer_ids) == str((at - 1) % 40)


def test_canaries_are_words_and_no_signs() -> None:
    words = list(range(len(FIXED), len(FIXED) + 3))
    assert canaries([*words, 4, *words[:2]]) == {tuple(words)}
    assert canaries(words[:2]) == frozenset()


def test_an_unknown_owner_is_no_leak() -> None:
    assert Witness().leaked_from("me", task(1), task(2).answer_ids) is None


@pytest.mark.parametrize(
    ("answer", "leaked", "expected"),
    [
        (task(1).answer_ids, None, TextClass.RIGHT),
        (task(2).answer_ids, "other", TextClass.LEAK),
        ((*task(1).answer_ids[:9], *([PAD] * 50)), None, TextClass.SILENT),
        ((*task(1).answer_ids[:9], *([80, 81, 82] * 30)), None, TextClass.LOOP),
        ((*task(1).answer_ids[:9], EOS), None, TextClass.FLUENT),
        (tuple(range(UNK, 163)), None, TextClass.GARBLED),
    ],
)
def test_an_answer_is_of_one_class(answer: tuple[int, ...], leaked: str | None, expected: TextClass) -> None:
    assert classify(task(1), answer, leaked) is expected
