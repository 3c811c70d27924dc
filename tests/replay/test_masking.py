"""Text in place of text."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.masking import BLOCK_CHARS, Masker
from replay.wording import KEPT

SALT = b"0123456789abcdef"
words = st.text(max_size=700) | st.text("abcXYZ09_ .,\n\"'{}[]:\\我們日本ねカ한р", max_size=700)


def _masked(text: str, salt: bytes = SALT) -> str:
    return Masker(salt).start().text(text)


@given(text=words)
def test_length_blanks_and_punctuation_stay(text: str) -> None:
    masked = _masked(text)
    assert len(masked) == len(text)
    for old, new in zip(text, masked, strict=True):
        if not old.isalnum() and old.isascii():
            assert new == old


@given(common=words, one=words, other=words)
def test_a_common_beginning_stays_common(common: str, one: str, other: str) -> None:
    first, second = _masked(common + one), _masked(common + other)
    # A word that the common part ends in may go on in one text only, and a pair of letters be one sign.
    sure = len(re.sub(r"(\w|\\|_)*$", "", common))
    assert first[:sure] == second[:sure]


@given(text=st.text("abcdefgh ", min_size=30, max_size=300))
def test_another_salt_gives_another_text(text: str) -> None:
    if len(re.findall("[a-h]{3,}", text)) >= 6:
        assert _masked(text) != _masked(text, b"fedcba9876543210")


def test_words_do_not_survive_and_marks_of_code_do() -> None:
    text = "def parse_config(path): return json.loads(secretToken)  # Jane Doe\n"
    masked = _masked(text)
    assert re.sub("[A-Za-z]+", "w", masked) == re.sub("[A-Za-z]+", "w", text)
    left = set(re.findall("[A-Za-z]{3,}", masked)) & set(re.findall("[A-Za-z]{3,}", text))
    assert {word.lower() for word in left} <= KEPT


def test_what_recurs_within_a_block_recurs_and_across_blocks_does_not() -> None:
    one = _masked("alphabet " * 3)
    assert one == one[:9] * 3
    far = _masked("alphabet " + "x" * BLOCK_CHARS + " alphabet")
    assert {far.split()[0], far.split()[-1]} != {far.split()[0]}


@given(
    value=st.recursive(
        st.text() | st.integers() | st.booleans() | st.none(),
        lambda v: st.lists(v) | st.dictionaries(st.text(), v),
        max_leaves=8,
    )
)
def test_json_within_a_text_stays_json(value: object) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        if "\\ud" not in text and len(text) < BLOCK_CHARS:
            json.loads(_masked(text))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("42", r"[1-9]\d"),
        ("007", r"0\d\d"),
        ("0", "0"),
        ("1" * 80, r"[1-9]\d{79}"),
        ("HTTPServer", r"[A-Z]{4}[A-Z][a-z]{5}"),
        ("我", "[\u4e00-\u9fff]"),
        ("Привет", "[А-Я][а-я]{5}"),
        ("naïve", "[a-z]{2}[à-ý][a-z]{2}"),
        ("\U00020001", "[\U00020000-\U0002ffff]"),
        ("\\u4f60\\n", r"\\u[4-9][0-9a-f]{3}\\n"),
    ],
)
def test_a_sign_stays_of_its_kind(text: str, pattern: str) -> None:
    assert re.fullmatch(pattern, _masked(text))


def test_names_and_numbers_are_the_same_wherever_they_stand() -> None:
    masker = Masker(SALT)
    assert masker.name("session-1") == masker.name("session-1") != masker.name("session-2")
    assert masker.name("") == ""
    assert masker.number(7) == masker.number(7) != masker.number(8)
    assert 0 <= masker.number(7) < 2**63


def test_token_ids_keep_a_common_beginning_and_stay_in_the_vocabulary() -> None:
    one = Masker(SALT).start().ids([*range(500), 7], 1000)
    other = Masker(SALT).start().ids([*range(500), 8], 1000)
    assert one[:500] == other[:500]
    assert one != [*range(500), 7]
    assert all(0 <= token < 1000 for token in one)


def test_a_short_salt_is_refused_and_none_is_shown() -> None:
    with pytest.raises(ValueError, match="16 bytes at least"):
        Masker(b"short")
    assert "01234" not in repr(Masker(SALT))
