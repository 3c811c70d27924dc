"""The words that take the place of others."""

from replay.wording import BLOCKS, BY_LENGTH, KEPT, LENGTHS, WORDS


def test_every_length_up_to_the_longest_can_be_made() -> None:
    assert set(LENGTHS) >= {1, 2, 3, 4, 5}
    assert LENGTHS[0] == max(map(len, WORDS))
    assert all(len(set(words)) >= 2 for words in BY_LENGTH.values())


def test_replacements_are_plain_lower_case_words_and_no_marks_of_code() -> None:
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)
    assert not set(WORDS) & KEPT


def test_letters_stand_in_for_letters_of_their_own_block() -> None:
    for first, last, letters in BLOCKS:
        assert all(first <= ord(letter) <= last and letter.isalpha() for letter in letters)
