"""The lab's tasks: one right answer each, that a reader of the prompt can check without the generator."""

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from replay.lab.tasks import KINDS, Kind, Task, answer_ok, flatten, prompt_ids, sample, session
from replay.lab.tokenizer import EOS, FIXED, encode

PROMPT_TOKENS = range(53, 221)
ANSWER_TOKENS = range(32, 98)

each_kind = pytest.mark.parametrize("kind", KINDS)


def drawn(kind: Kind, count: int = 100) -> list[Task]:
    rng = np.random.default_rng(11)
    return [sample(rng, kind) for _ in range(count)]


def asked(task: Task) -> list[str]:
    """Return the prompt's lines without history and answer cue."""
    return [line for line in task.prompt.splitlines()[:-1] if not line.startswith("#")]


def read_copy(lines: list[str]) -> list[str]:
    return lines[2:-1]


def read_edit(lines: list[str]) -> list[str]:
    key, value = lines[-1].removeprefix("set ").split(": ")
    return [re.sub(f"^(\\d+ {key}:).*", f"\\1 {value}", line) for line in lines[1:-1]]


def read_extract(lines: list[str]) -> list[str]:
    fields = dict(line.removeprefix("- ").split(": ") for line in lines[1:-1])
    wanted = re.findall(r"(\d+) (\w+)", lines[-1])
    return [f"{rank} {key}: {fields[key]}" if key != "end" else f"{rank} end" for rank, key in wanted]


def read_order(lines: list[str]) -> list[str]:
    return sorted(lines[1:], key=lambda line: int(next(iter(json.loads(line)))))


READERS: dict[Kind, Callable[[list[str]], list[str]]] = {
    "copy": read_copy,
    "edit": read_edit,
    "extract": read_extract,
    "order": read_order,
}


@each_kind
def test_the_right_answer_follows_from_the_prompt_alone(kind: Kind) -> None:
    for task in drawn(kind):
        assert task.answer.splitlines() == READERS[kind](asked(task))


@each_kind
def test_prompts_and_answers_keep_to_their_lengths_and_round_trip(kind: Kind) -> None:
    for task in drawn(kind):
        assert len(task.prompt_ids) in PROMPT_TOKENS
        assert len(task.answer_ids) in ANSWER_TOKENS
        assert tuple(prompt_ids(task.prompt)) == task.prompt_ids
        assert (*encode(task.answer), EOS) == task.answer_ids


@each_kind
def test_no_right_answer_loops(kind: Kind) -> None:
    for task in drawn(kind):
        ids = task.answer_ids
        grams = [ids[at : at + 3] for at in range(len(ids) - 2)]
        assert len(set(grams)) >= 0.8 * len(grams)


@each_kind
def test_no_pair_of_words_and_no_first_word_comes_twice(kind: Kind) -> None:
    for task in drawn(kind):
        pairs = Counter(pair for pair in pairwise(task.prompt_ids) if min(pair) >= len(FIXED))
        assert max(pairs.values()) == 1
        firsts = Counter(re.findall(r"^(?:# |\{\"\d+\":\"|.*: )([a-z]+)", task.prompt, re.MULTILINE))
        assert all(count == 1 for word, count in firsts.items() if word != "end")


def test_ordered_steps_are_json_lines() -> None:
    for task in drawn("order", 20):
        steps = [json.loads(line) for line in task.answer.splitlines()]
        assert [list(step) for step in steps] == [[str(at)] for at in range(1, len(steps) + 1)]


def test_the_same_seed_draws_the_same_tasks() -> None:
    assert sample(np.random.default_rng(3)) == sample(np.random.default_rng(3))
    assert session(np.random.default_rng(3)) == session(np.random.default_rng(3))


def test_only_the_whole_right_answer_passes_the_check() -> None:
    first, second = drawn("edit", 2)
    assert answer_ok(first, first.answer)
    assert answer_ok(first, first.answer.rstrip())
    assert not answer_ok(first, second.answer)
    assert not answer_ok(first, first.answer[:-20])
    assert not answer_ok(first, "")


def test_a_session_grows_behind_a_shared_prefix() -> None:
    turns = session(np.random.default_rng(5))
    for before, after in pairwise(turns):
        history = before.messages[:-1]
        assert after.messages[: len(history)] == history
        assert len(after.messages) == len(before.messages) + 2


def test_a_session_s_messages_flatten_to_the_trained_prompt() -> None:
    rng = np.random.default_rng(6)
    for turn in (turn for _ in range(50) for turn in session(rng)):
        assert flatten(turn.messages) == turn.task.prompt
        assert len(turn.task.prompt_ids) in PROMPT_TOKENS
        assert turn.task.answer.splitlines() == READERS[turn.task.kind](asked(turn.task))


def test_a_session_speaks_as_system_user_and_assistant() -> None:
    last = session(np.random.default_rng(7), turns=3)[-1]
    assert [message["role"] for message in last.messages] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
