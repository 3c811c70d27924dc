"""Text that is shared is found wherever and however it is written; text that is not is not."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.kgrams import Hasher, distinct, folded, open_escape
from service.core.origin import GRAM_BYTES

HASHER = Hasher(b"salt")
PASSAGE = "The night train leaves the old station at ten, and reaches the coast before the ferry does."


def grams(text: str, hasher: Hasher = HASHER) -> list[int]:
    found, _ = hasher.grams([b" " + folded(text)])
    hashes: list[int] = found.hashes.tolist()
    return hashes


@pytest.mark.parametrize(
    "written",
    [
        PASSAGE.upper(),
        PASSAGE.replace(" ", "\n\t  "),
        f"> {PASSAGE.replace(', ', ' -- ')}",
        PASSAGE.replace(" ", r"\n"),
        PASSAGE.replace(" ", r"\\n\""),
    ],
)
def test_layout_case_and_escapes_hide_nothing(written: str) -> None:
    assert grams(written) == grams(PASSAGE)


def test_a_gram_begins_at_every_word_that_has_32_bytes_before_the_end() -> None:
    words = "one two three four five six seven eight nine ten"
    found, (text,) = HASHER.grams([b" " + folded(words)])
    begins = [text[place : place + GRAM_BYTES] for place in found.place.tolist()]
    assert [begin.split()[0] for begin in begins] == [b"one", b"two", b"three", b"four"]
    assert all(len(begin) == GRAM_BYTES for begin in begins)


@given(st.integers(0, 200), st.integers(0, 200), st.randoms(use_true_random=False))
def test_48_bytes_of_shared_prose_are_never_missed(before: int, after: int, rng: random.Random) -> None:
    def noise(words: int) -> str:
        return " ".join("".join(rng.choices("bcdfgh", k=rng.randint(2, 9))) for _ in range(words))

    shared = " ".join("".join(rng.choices("aeioulmn", k=rng.randint(1, 9))) for _ in range(24))[:48].strip()
    shared += "x" * (48 - len(shared))
    here, there = (grams(f"{noise(words)} {shared} {noise(9)}") for words in (before, after))
    assert set(here) & set(there)


def test_scripts_without_blanks_have_anchors_too() -> None:
    text = "清晨的市场里已经有不少人卖菜的老人把新摘的青菜摆得整整齐齐有人问价有人挑拣也有人只是路过看看"
    assert len(grams(text)) >= 5
    assert set(grams("他说" + text)) >= set(grams(text))


def test_texts_hashed_together_are_as_hashed_alone() -> None:
    texts = [PASSAGE, "", "short", PASSAGE.lower() * 3, "清晨的市场里已经有不少人" * 4]
    found, wholes = HASHER.grams([b" " + folded(text) for text in texts])
    for place, text in enumerate(texts):
        assert found.hashes[found.text == place].tolist() == grams(text)
    assert wholes[0].startswith(b" the night train leaves")


def test_short_grams_are_found_where_long_ones_are_broken() -> None:
    changed = PASSAGE.replace("station", "harbour").replace("coast", "plain").replace("leaves", "passes")
    assert not set(grams(changed)) & set(grams(PASSAGE))
    short, other = (HASHER.short_grams(b" " + folded(text)).hashes for text in (changed, PASSAGE))
    assert np.isin(short, other).any()


def test_both_sizes_in_one_pass_are_as_each_alone() -> None:
    texts = [b" " + folded(text) for text in (PASSAGE, "short", "清晨的市场里已经有不少人" * 4, "")]
    long, short, wholes = HASHER.both(texts)
    alone, pieces = HASHER.grams(texts)
    assert wholes == pieces
    assert long.hashes.tolist() == alone.hashes.tolist()
    assert long.place.tolist() == alone.place.tolist()
    each = [HASHER.short_grams(text).hashes for text in texts]
    assert short.hashes.tolist() == np.concatenate(each).tolist()


def test_another_salt_gives_other_fingerprints() -> None:
    assert not set(grams(PASSAGE)) & set(grams(PASSAGE, Hasher(b"other")))
    assert "salt" not in repr(HASHER)


def test_any_two_grams_that_differ_have_different_fingerprints() -> None:
    rng = random.Random(7)
    whole = {" ".join(rng.choices("abcdefgh", k=40)) for _ in range(3000)}
    hashes = [grams(text)[0] for text in whole]
    assert len(set(hashes)) == len({text[:GRAM_BYTES] for text in whole})


@given(st.text(), st.integers(0, 20))
def test_no_text_is_too_odd(text: str, times: int) -> None:
    found, wholes = HASHER.grams([b" " + folded(text * times)])
    assert len(wholes) == 1
    assert len(found.hashes) == len(found.place) == len(found.text)


@pytest.mark.parametrize(("text", "waiting"), [("a", 0), ("a\\", 1), ("a\\\\", 2), ("\\n", 0), ("", 0)])
def test_half_an_escape_is_told(text: str, waiting: int) -> None:
    assert open_escape(text) == waiting


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_distinct_is_sorted_and_whole(values: list[int]) -> None:
    assert distinct(np.array(values, np.uint64)).tolist() == sorted(set(values))
