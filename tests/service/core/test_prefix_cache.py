"""A turn that hits nothing of its session's prefix is named."""

import json
from pathlib import Path

from service.core.loglines import read
from service.core.prefix_cache import Turn, ZeroHit, zero_hits

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telemetry"


def test_the_reported_turn_is_found() -> None:
    cases = map(json.loads, (FIXTURES / "ops_cases.jsonl").read_text().splitlines())
    case = next(case for case in cases if case["id"] == "ops-41")
    turns = []
    for line in case["input"]:
        event = read(line)
        assert event is not None
        turns.append(Turn(int(event.numbers["prompt_tokens"]), int(event.numbers["cached_tokens"])))
    (hit,) = zero_hits(turns)
    assert case["expected"]["verdict"] == f"info:prefix_cache_zero_hit on turn {hit.turn}"
    assert hit.hint == case["expected"]["hint"]
    assert hit.missed_tokens == 52446


def test_first_turns_short_prefixes_and_hits_are_ordinary() -> None:
    assert zero_hits([]) == ()
    assert zero_hits([Turn(5000, 0)]) == ()
    assert zero_hits([Turn(500, 0), Turn(900, 0)]) == ()
    assert zero_hits([Turn(5000, 0), Turn(5100, 4992)]) == ()
    assert zero_hits([Turn(5000, 0), Turn(5100, 0)]) == (ZeroHit(2, 5000),)
