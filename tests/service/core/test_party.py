"""Who is whose kin, and what an answer is while it waits to be looked at."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.kgrams import Hasher, Hashes, distinct, folded
from service.core.party import KIN_MAX, SAID_CHARS, Party, Speech, is_telling

HASHER = Hasher(b"s")


class Ear:
    """Looks as the index does, and keeps what it saw."""

    def __init__(self) -> None:
        self.listed: list[Speech] = []
        self.texts: list[bytes] = []

    def listen(self, speech: Speech) -> None:
        self.listed.append(speech)

    def look_at(self, batch: Sequence[Speech], now: float) -> None:
        _, texts = HASHER.grams([speech.take() for speech in batch])
        self.texts += texts
        for speech, text in zip(batch, texts, strict=True):
            speech.go_on(text)

    def short_grams(self, prompt: str) -> Hashes:
        return distinct(HASHER.short_grams(b" " + folded(prompt)).hashes)


def party(number: int = 1, *, tenant: int = 0, session: int = 0) -> Party:
    made = Party(Ear(), number, f"r{number}", tenant=tenant, session=session)
    made.ready = True
    return made


def body(start: int, stop: int) -> Hashes:
    """Grams as if of a prompt: the same numbers for the same part."""
    drawn: Hashes = np.random.default_rng(3).permutation(2**20)[start:stop].astype(np.uint64)
    return np.sort(drawn)


@pytest.mark.parametrize(
    ("other", "share"),
    [
        ((0, 1000), 1.0),
        ((500, 1500), 0.5),
        ((0, 100), 1.0),
        ((900, 1900), 0.1),
        ((1000, 2000), 0.0),
        ((0, 0), 0.0),
    ],
)
def test_what_two_prompts_share_is_estimated(other: tuple[int, int], share: float) -> None:
    one, two = party(1), party(2)
    one.describe(body(0, 1000), name=0)
    two.describe(body(*other), name=0)
    assert one.share(two) == pytest.approx(share, abs=0.15)
    assert two.share(one) == pytest.approx(share, abs=0.15)


def test_one_session_one_prompt_or_one_history_make_kin() -> None:
    assert party(1, session=5).is_kin(party(2, session=5))
    assert not party(1).is_kin(party(2))
    one, two, three = party(1), party(2), party(3)
    for asking, name in ((one, 8), (two, 8), (three, 9)):
        asking.describe(body(0, 0), name=name)
    assert one.is_kin(two)
    assert not one.is_kin(three)
    three.join(one, 20)
    assert three.is_kin(one)
    assert one.is_kin(three)
    assert three.family == one.family
    assert three.share(one) == 1.0


def test_kinship_is_inherited_by_name_and_bounded() -> None:
    last = party(1)
    for number in range(2, 200):
        later = party(number)
        later.join(last, 10)
        last = later
    assert last.kin == set(range(200 - 1 - KIN_MAX, 199))
    assert last.family == 1


def test_the_closest_relative_gives_the_family() -> None:
    one = party(3)
    one.join(party(1), 50)
    one.join(party(2), 20)
    assert one.family == 1


def test_own_grams_are_its_own() -> None:
    one = party()
    assert not one.owns(body(0, 3)).any()
    one.own, one.own_short = body(0, 100), body(100, 200)
    assert one.owns(body(50, 150)).sum() == 50
    assert one.owns_short(body(50, 150)).sum() == 50


@given(st.text(alphabet="ab \\n\n文é", max_size=300), st.lists(st.integers(1, 40), max_size=30))
def test_however_an_answer_is_cut_the_same_is_looked_at(text: str, cuts: list[int]) -> None:
    one = party()
    cut, whole = one.speak(), one.speak()
    at = 0
    for size in [*cuts, len(text)]:
        cut.hear(text[at : at + size])
        cut.catch_up(0.0)
        at += size
    whole.hear(text)
    whole.catch_up(0.0)
    assert cut.read == whole.read
    assert cut._tail == whole._tail


def test_an_answer_is_listed_once_however_often_it_speaks() -> None:
    one = party()
    speech = one.speak()
    for _ in range(3):
        speech.hear("words ")
        speech.catch_up(0.0)
    ear = one._ear
    assert isinstance(ear, Ear)
    assert ear.listed == [speech]


def test_the_end_of_a_long_answer_waits_for_the_tick_where_nothing_is_held() -> None:
    def left(words: int, *, thorough: bool) -> int:
        one = Party(Ear(), 1, "r1", thorough=thorough)
        one.ready = True
        speech = one.speak()
        speech.hear("word " * words)
        speech.catch_up(0.0)
        speech.hear("the end")
        speech.finish(0.0)
        return speech.chars

    assert left(1000, thorough=True) == left(100, thorough=False) == 0
    assert left(1000, thorough=False) == len("the end")


def test_what_waits_is_bounded() -> None:
    speech = party().speak()
    for _ in range(40):
        speech.hear("x" * 4096)
    assert speech.chars <= SAID_CHARS + 4096
    endless = party().speak()
    endless.hear("\\" * 5000)
    endless.catch_up(0.0)
    assert endless.chars <= 64


def test_nothing_is_looked_at_before_the_prompt_is_read() -> None:
    one = party()
    one.ready = False
    speech = one.speak()
    speech.hear("words")
    speech.catch_up(0.0)
    assert speech.chars == 5


def test_a_hit_says_whose_words_and_whether_of_another_tenant() -> None:
    one, two, three = party(1, tenant=4), party(2, tenant=5), party(3)
    speech = one.speak()
    speech.meet(two, 77, 40, spoken=False)
    speech.meet(three, 78, 80, spoken=True)
    first, second = speech.hits
    assert (first.rid, first.foreign, first.spoken, first.place) == ("r2", True, False, 39)
    assert (second.rid, second.foreign, second.spoken) == ("r3", False, True)
    assert one.borrowed == [77, 78]


def test_only_what_lies_on_a_hit_needs_an_explanation() -> None:
    one = party()
    speech = one.speak()
    speech.explain([10])
    assert not speech.explained
    speech.meet(party(2), 77, 101, spoken=False)
    speech.explain([91, 401], length=16)
    assert speech.explained == {(90, 16)}


def test_texts_stay_out_of_sight() -> None:
    one = party()
    speech = one.speak()
    speech.hear("secret words")
    assert "secret" not in repr(speech) + repr(one)


@pytest.mark.parametrize(
    "gram",
    [
        b"0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        b"na na na na na na na na na na na na",
    ],
)
def test_what_everybody_writes_tells_nothing(gram: bytes) -> None:
    assert not is_telling(gram[:32])


def test_words_tell() -> None:
    assert is_telling(b"the night train leaves the old s")
    assert is_telling(folded("清晨的市场里已经有不少人")[:32])
