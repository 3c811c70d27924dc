import random

from replay.bench.made import SOURCES, clean, loop, replaced, samples, splice, stutter
from service.core.events import Kind


def test_the_same_seed_makes_the_same_texts() -> None:
    assert list(samples(1, 1)) == list(samples(1, 1))
    assert list(samples(1, 1)) != list(samples(2, 1))


def test_every_kind_is_made_and_so_are_clean_texts() -> None:
    kinds = {sample.kind for sample in samples(1, 1)}
    assert kinds == {Kind.NORMAL, Kind.GARBLED, Kind.REPETITION, Kind.RARE_CHAR}


def test_a_loop_goes_round_after_a_sentence_that_breaks_off() -> None:
    text = loop(random.Random(2), "en", 8)
    assert any(text.count(text[-size:]) >= 4 for size in range(12, 60))


def test_only_a_share_is_replaced_and_only_from_some_point_on() -> None:
    text = replaced(random.Random(3), "zh", "han_ext_b", 30)
    strange = [place for place, char in enumerate(text) if ord(char) >= 0x20000]
    assert strange[0] > 5
    assert 0.1 < len(strange) / (len(text) - strange[0]) < 0.5


def test_a_stutter_says_everything_so_often_and_a_splice_joins_two_texts() -> None:
    assert "and and and" in "".join(stutter(random.Random(seed), "en", 3) for seed in range(9))
    text = splice(random.Random(4), "en", "zh")
    assert text[:30].isascii()
    assert not text[-10:].isascii()


def test_clean_texts_come_from_their_language() -> None:
    for language, source in SOURCES.items():
        assert clean(random.Random(5), language)[:10] in "".join(source)
