import pytest

from service.core.scripts import CODES, REMEMBERED, Codes, form, is_other


@pytest.mark.parametrize(
    ("char", "code"),
    [
        ("a", "a"), ("Z", "A"), ("7", "d"), (" ", " "), ("é", "e"), ("π", "y"), ("ж", "c"),
        ("的", "h"), ("語", "h"), ("谠", "i"), ("\u4473", "j"), ("镕", "i"), ("咗", "i"), ("\U00020000", "j"),
        ("ぼ", "k"), ("カ", "k"), ("한", "g"),
        ("\ufffd", "F"), ("\u0378", "x"), ("\ue000", "p"), ("⠛", "s"), ("\u2a3f", "s"),
        ("→", "o"), ("═", "o"), ("\n", "\n"), ("ー", "k"),
        ("😀", " "), ("\U0001fae8", " "), ("，", " "), ("μ", "y"), ("\u00b5", " "),
    ],
)  # fmt: skip
def test_a_character_is_what_it_is(char: str, code: str) -> None:
    assert char.translate(CODES) == code


def test_every_other_script_has_a_code_of_its_own() -> None:
    codes = ["ได"[1].translate(CODES), *(char.translate(CODES) for char in "কქնשعጋᎣதꔀ")]
    assert len(set(codes)) == len(codes)
    assert all(map(is_other, codes))
    assert "ขท".translate(CODES) == codes[0] * 2


def test_combining_marks_belong_to_their_letter() -> None:
    assert "ক্ষ".translate(CODES) == "ক".translate(CODES) + "ষ".translate(CODES)
    assert "e\u0301".translate(CODES) == "a"


def test_memory_is_bounded() -> None:
    codes = Codes()
    for point in range(0x4E00, 0x4E00 + 2 * REMEMBERED):
        codes[point]
    assert len(codes) <= REMEMBERED


def test_a_han_character_may_show_a_reform() -> None:
    assert [form(char) for char in "类業読人"] == ["s", "t", "t", ""]
