"""Questions in sessions whose prefixes grow, each a plain one."""

from itertools import pairwise

from replay.gpu_traffic import ASKED, TOPICS, header, questions


def test_a_turn_holds_all_turns_before_it() -> None:
    requests = list(questions(2 * len(ASKED)))
    for before, after in pairwise(requests):
        if before.session != after.session:
            continue
        old, new = ((one.body or {})["messages"] for one in (before, after))
        assert new[: len(old)] == old
        assert [message["role"] for message in new[len(old) :]] == ["assistant", "user"]
    assert [one.turn for one in requests] == [*range(len(ASKED))] * 2


def test_ids_are_unique_and_sessions_have_topics_of_their_own() -> None:
    requests = list(questions(400))
    assert len({one.id for one in requests}) == 400
    firsts = [one for one in requests if not one.turn][: len(TOPICS)]
    assert len({(one.body or {})["messages"][1]["content"] for one in firsts}) == len(TOPICS)
    bodies = {str(one.body) for one in requests}
    assert len(bodies) == 400


def test_answers_may_end_where_they_end() -> None:
    (one,) = questions(1)
    assert one.body is not None
    assert "ignore_eos" not in one.body
    assert one.body["temperature"] == 0
    assert header().source == "questions"
