import pytest

from service.core.copying import AGAIN_BYTES, CopyGuard, is_copy, share
from tests.service.core.detectors.texts import CHINESE, CODE, prose


def test_an_edited_file_is_a_copy_of_its_prompt() -> None:
    answer = CODE.replace("ranges", "spans", 1)
    assert is_copy("Rename a parameter:\n" + CODE * 2, answer)


def test_an_answer_in_its_own_words_is_none() -> None:
    assert share(prose(1, 300), prose(2, 300)) < 0.1


def test_a_loop_over_a_sentence_of_the_prompt_is_none() -> None:
    sentence = "the tank is checked for leaks and the valve is closed again before noon. "
    assert share("Please say: " + sentence, sentence * 20) < 0.2


@pytest.mark.parametrize(("prompt", "answer"), [("", "a b"), ("a b", ""), ("a " * 20, "b")])
def test_too_little_to_compare_is_none(prompt: str, answer: str) -> None:
    assert not is_copy(prompt, answer)


def test_chinese_is_compared_character_by_character() -> None:
    assert is_copy("校对：" + CHINESE, CHINESE)


def test_the_guard_asks_again_once_more_has_been_said() -> None:
    guard, source = CopyGuard(), prose(3, 400)
    copied = source[:2000].encode()
    assert guard.excuses(source, copied, 2000)
    own = copied + prose(4, 400).encode()
    assert guard.excuses(source, own, 2000 + AGAIN_BYTES - 1)
    assert not guard.excuses(source, own, 2000 + AGAIN_BYTES)
    assert not CopyGuard().excuses("", copied, 2000)
