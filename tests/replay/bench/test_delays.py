import random

from replay.bench import delays, detectors
from service.core.recorded import Rules

RULES = Rules(*detectors.load())


def test_loops_are_found_within_four_copies_or_96_tokens() -> None:
    rng = random.Random(4)
    before = detectors.ENGLISH + "\n"
    for period in (1, 3, 13, 55, 144):
        text = before + delays.words(rng.randrange(1000), period) * max(6, 200 // period)
        found = delays.delay(text, len(before), RULES.detectors, RULES.fusion)
        assert found is not None
        assert found <= max(96, 4 * period)


def test_what_never_comes_round_is_never_found() -> None:
    assert delays.delay(detectors.ENGLISH, 10, RULES.detectors, RULES.fusion) is None
