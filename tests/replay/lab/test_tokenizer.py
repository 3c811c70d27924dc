"""The lab's tokenizer: text and tokens are two spellings of the same thing."""

from hypothesis import given
from hypothesis import strategies as st

from replay.lab.tokenizer import BOS, EOS, PAD, TOKENS, UNK, VOCABULARY_SIZE, Detokenizer, decode, encode

visible = st.lists(st.integers(UNK, VOCABULARY_SIZE - 1), max_size=60)
any_token = st.lists(st.integers(0, VOCABULARY_SIZE - 1), max_size=60)


@given(visible)
def test_every_visible_token_round_trips_through_text(ids: list[int]) -> None:
    assert encode(decode(ids)) == ids


@given(any_token, st.integers(0, 60))
def test_text_only_grows_as_tokens_come(ids: list[int], at: int) -> None:
    assert decode(ids).startswith(decode(ids[:at]))


@given(any_token)
def test_a_stream_of_single_tokens_spells_the_whole_text(ids: list[int]) -> None:
    stream = Detokenizer()
    assert "".join(stream.feed(index) for index in ids) == decode(ids)


@given(st.text(max_size=80))
def test_no_client_text_is_refused(text: str) -> None:
    assert all(UNK <= index < VOCABULARY_SIZE for index in encode(text))


def test_pad_is_token_zero_and_leaves_no_text() -> None:
    assert PAD == 0
    assert not decode([PAD] * 50)


def test_special_tokens_are_skipped_as_if_they_were_not_there() -> None:
    ids = encode("set name: list\n")
    assert decode([BOS, ids[0], PAD, *ids[1:], EOS]) == decode(ids)


def test_an_unknown_word_or_sign_is_one_unknown_token() -> None:
    assert encode("set Grüße!") == [encode("set")[0], UNK, UNK]
    assert decode(encode("set Grüße!")) == "set <unk> <unk>"


def test_a_space_more_is_another_token_and_a_single_one_is_none() -> None:
    assert encode("set  name") == [*encode("set"), UNK, *encode("name")]
    assert encode(" set name ") == encode("set name")


def test_json_and_lines_are_written_without_odd_blanks() -> None:
    text = '{"1":"list the names"}\n# used once.\n- name: list'
    assert decode(encode(text)) == text


def test_the_vocabulary_has_512_different_tokens() -> None:
    assert VOCABULARY_SIZE == len(set(TOKENS)) == 512


def test_repr_shows_no_text() -> None:
    stream = Detokenizer()
    stream.feed(encode("list")[0])
    assert repr(stream) == "<Detokenizer in text>"
