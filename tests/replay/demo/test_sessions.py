"""What is asked: the same from the same seed, half of it strict, histories that grow."""

from collections import Counter
from itertools import pairwise

import msgspec

from replay.demo.sessions import MAX_TOKENS, SHAPES, Ask, asks
from replay.lab.intake import read_chat, read_generate
from service.core.events import Policy

MANY: list[list[Ask]] = [list(asks(3, number)) for number in range(60)]
ALL = [ask for session in MANY for ask in session]


def test_a_session_is_drawn_from_seed_and_number_alone() -> None:
    assert list(asks(3, 7)) == MANY[7]
    assert [ask.body for ask in asks(4, 7)] != [ask.body for ask in MANY[7]]


def test_half_the_sessions_are_strict_and_each_is_of_one_mind() -> None:
    policies = [{ask.policy for ask in session} for session in MANY]
    assert policies == [{Policy.PROTECT}, {Policy.STRICT}] * 30


def test_the_policy_travels_in_the_header() -> None:
    assert {ask.headers["x-specguard-policy"] for ask in ALL} == {"protect", "strict"}


def test_request_ids_are_of_one_width_and_never_twice() -> None:
    assert {len(ask.rid) for ask in ALL} == {32}
    assert len({ask.rid for ask in ALL}) == len(ALL)


def test_every_shape_is_asked_for_and_streamed_chat_mostly() -> None:
    shapes = Counter(ask.shape for ask in ALL)
    assert set(shapes) == {shape for shape, _ in SHAPES}
    assert shapes["chat"] > len(ALL) / 2


def test_the_engine_reads_the_prompt_that_the_task_has() -> None:
    for ask in ALL:
        read = read_generate(ask.body) if ask.path == "/generate" else read_chat(ask.body)
        assert read.prompt == ask.task.prompt_ids
        assert (read.rid, read.temperature, read.max_new_tokens) == (ask.rid, 0.0, MAX_TOKENS)
        assert read.stream is (ask.shape != "whole")


def test_each_turn_brings_the_history_of_the_turn_before() -> None:
    chats = [[ask for ask in session if ask.shape != "generate"] for session in MANY]
    for session in chats:
        for before, after in pairwise(session):
            earlier = msgspec.json.decode(before.body)["messages"][:-1]
            assert msgspec.json.decode(after.body)["messages"][: len(earlier)] == earlier


def test_an_ask_shows_no_text() -> None:
    assert all(word not in repr(ALL[0]) for word in ALL[0].task.answer.split() if len(word) > 4)
