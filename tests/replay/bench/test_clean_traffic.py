"""The clean traffic is made as it says: much in common, and every answer one's own."""

from itertools import islice

from replay.bench.clean_traffic import Request, World


def turns(seed: int, sessions: int) -> list[list[Request]]:
    return [turn for session in islice(World(seed).sessions(), sessions) for turn in session]


def test_a_seed_gives_the_same_traffic() -> None:
    assert turns(3, 5) == turns(3, 5)
    assert turns(3, 5) != turns(4, 5)


def test_prompts_are_marked_where_their_parts_meet() -> None:
    for request, *_ in turns(1, 20):
        facts = request.facts
        assert facts.prompt[facts.preamble_chars - 1] == "\n"
        assert facts.prompt[len(facts.prompt) - facts.tools_chars] == "\n"


def test_sessions_share_systems_files_and_answers_and_are_retried() -> None:
    drawn = turns(1, 120)
    systems = {turn[0].facts.prompt[: turn[0].facts.preamble_chars] for turn in drawn}
    assert len(systems) < 10
    assert any(len(turn) == 2 for turn in drawn)
    assert any(len(turn) == 4 for turn in drawn)
    answers = [turn[0].answer for turn in drawn]
    continued = sum(a in b[0].facts.prompt for a, b in zip(answers, drawn[1:], strict=False))
    assert continued > len(drawn) // 3
