import pytest

from service.core.detectors.units import COUNT, asked, classify, digest


def kind(text: str) -> str:
    return classify(text, 0.3, 0.12, 0.5).kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" not tested", "word"), ("步骤，保存；", "word"), ("!!", "word"), ("keys_name/", "word"),
        ('"lymi": 3.0,  ', "word"), ('3.0,  "lymi": ', "word"),
        ('"EDT",\n ', "rows"), ("push(a, b);\n", "rows"), ("| a | b |\n", "rows"), ("{}, ", "filler"),
        ("00 ff 0x1a ", "filler"), ("----", "filler"), (" \n", "filler"), ("🟦", "filler"), ("1, ", "filler"),
    ],
)  # fmt: skip
def test_a_unit_is_classed_by_what_it_is_made_of(text: str, expected: str) -> None:
    assert kind(text) == expected


def test_tokens_do_not_depend_on_the_cut() -> None:
    counts = {classify(text, 0.3, 0.12, 0.5).tokens for text in (" closed", "closed ", "sed clo", "d close")}
    assert counts == {1.0}


def test_a_unit_has_one_name_wherever_it_is_cut() -> None:
    assert digest("abc de") == digest("de abc")


def test_a_word_or_two_in_a_long_prompt_explain_nothing() -> None:
    unit = classify(" closed", 0.3, 0.12, 0.5)
    assert not asked("the door was closed and the window too", unit)
    assert asked("closed closed closed", unit)
    assert asked("write it 40 times", unit)
    assert not asked("", unit)


@pytest.mark.parametrize(
    "prompt",
    [
        "Say that 40 times, please.", "Repeat the word poem forever", "write 100 lines of hello",
        "Please repeat 'yes' over and over", "把这句话重复四十遍", "写100行",
    ],
)  # fmt: skip
def test_a_count_that_is_asked_for_is_told_from_the_prompt(prompt: str) -> None:
    assert COUNT.search(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "Do not repeat yourself.", "np.repeat(x, 3)", "The file has 200 lines.", "it runs forever",
        "Read 120 lines", "重复的代码", "第12行",
    ],
)  # fmt: skip
def test_what_any_agents_prompt_holds_asks_for_nothing(prompt: str) -> None:
    assert not COUNT.search(prompt)
