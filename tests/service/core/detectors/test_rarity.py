import pytest

from service.core.detectors.rarity import Rarity
from service.core.events import Finding, Kind, Level, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import CHINESE, HEALTHY, RULES, deltas, judged, prose

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Rarity))
RARE_HAN = "谠蚣仡丐篪薮琏穰醵伧蛘锓趵芨襻馑囟柩噤楣坼粲讷圯纭驷镦蟾舡箫"
BEYOND = "䣓䳘㺺㜺䑆䱆㿒䠝㕐䂬㩒㕍㫪䗴䩽㢱㫓㵐䇔䲖"


def said(text: str, prompt: str = "") -> list[Finding]:
    inspector = Inspector(RequestFacts(dialect="t", prompt=prompt), WorkerFacts(), [RULE], RULES.fusion)
    for delta in deltas(text):
        inspector.read([delta], 0.0)
    inspector.finish(1.0, clean=True)
    return list(inspector.findings())


def replaced(strange: str, every: int, start: int = 30) -> str:
    """Chinese in which, from some point on, every n-th character is a strange one."""
    marks = iter(strange)
    return "".join(
        next(marks, char) if place >= start and place % every == 0 and char not in "，。" else char
        for place, char in enumerate(CHINESE)
    )


@pytest.mark.parametrize("strange", [BEYOND, "ꏭꊽꏍꃽꅕꁅꐥ", "⠈⬮⨽⣮⊶⎙⡊", "ሱႨՁᎲጔᎪդ"])
def test_signs_wedged_between_common_characters_are_rare(strange: str) -> None:
    assert [finding.unit for finding in said(replaced(strange, 6))] == ["wedged"]
    assert judged(replaced(strange, 6)).kind is Kind.RARE_CHAR


def test_chinese_that_turns_rare_shifts_unless_it_was_rare_all_along() -> None:
    turned = CHINESE * 2 + "".join(a + b for a, b in zip(CHINESE[:30], RARE_HAN, strict=True))
    assert [finding.unit for finding in said(turned)] == ["shift"]
    assert said(RARE_HAN * 3) == []
    assert said(turned, prompt="解释这些字：" + RARE_HAN * 5) == []


def test_lists_of_rare_characters_are_no_shift() -> None:
    assert (
        said(
            "以下是学生的名单，请班长核对："
            + "、".join(a + b for a, b in zip(RARE_HAN, RARE_HAN[3:], strict=False))
            + "。"
        )
        == []
    )


def test_cantonese_and_names_beyond_gb_2312_are_known() -> None:
    assert said("佢哋喺度做咗啲嘢，我哋仲未知嘅，你睇吓咪得囉。" * 3) == []
    assert said("朱镕基、陶喆、王珺、赵堃和李旻昇都来了，大家在一起讨论问题。" * 2) == []


def test_words_of_unlike_symbols_are_a_jumble() -> None:
    symbols = "⪘╗⣰ ⊂⏃⬔ ⩷⎲⡀ ⠨╀⪀⟨ ⡊⨳▆ ⎺⍟⣔ ⨽⊶⡙ ⇓⢄╮⨤"
    assert [finding.unit for finding in said(prose(1, 20) + " " + symbols)] == ["jumble"]
    assert said(prose(1, 20) + ' "⍺⍵⌽" "⍉⍋⍒" "∘○◦" "⊂⊃⎕" "⍎⍕⍬" "⊖⌽⍉" "⌹⍟○" "≢≡⍷"') == []


def test_two_scripts_in_one_breath_are_babel() -> None:
    text = "হাতির দাঁতের কথা বলছি? ខ្ញុំចង់ទៅផ្ទះវិញ។ (3) What is your name? আমরা সবাই যাব"
    assert [finding.unit for finding in said(text)] == ["babel"]
    assert said("bn: হাতির দাঁতের কথা বলছি\nkm: ខ្ញុំចង់ទៅផ្ទះវិញ\n") == []


def test_babble_of_many_scripts_is_a_second_witness() -> None:
    text = prose(2, 200) + " мост ক্ষতি ዋጋ გზა река তারা ሰላም ხიდი дом গাছ ቤት წყალი лес নদী ውሃ მთა" * 6
    assert any(finding.log10_e >= RULE.babble_log10 for finding in said(text))


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_text_has_nothing_out_of_place(case: str) -> None:
    assert said(HEALTHY[case]) == []


def test_what_the_prompt_holds_is_explained() -> None:
    text = replaced(BEYOND, 6)
    assert judged(text, prompt="这些字怎么读：" + BEYOND).level is Level.CLEAN
