import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.events import Delta, Kind, Level, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import CHINESE, RULES, RUSSIAN, judged, prose

HEAD = prose(1, 30) + " "


@pytest.mark.parametrize(
    ("text", "kind", "rule"),
    [
        ("na\ufffdve caf\ufffd and \ufffdber so", Kind.GARBLED, "replacement"),
        ("[PAD] [PAD] [unused12] x", Kind.RARE_CHAR, "special"),
        ("a<|im_start|>b<|im_end|>c<\uff5cbegin\u2581of\u2581sentence\uff5c>", Kind.RARE_CHAR, "special"),
        ("ballгот ремonta with vielขnom", Kind.GARBLED, "glue"),
        ("gutterぼdia and peddahぶsu", Kind.GARBLED, "glue"),
        ("me怦ge and ran潲gs and st礞t with th踔p", Kind.RARE_CHAR, "glue"),
        ("th⠛ny and sm⢸ke and be⣹ns", Kind.RARE_CHAR, "glue"),
        ("Gฒtob anጋle reქti moנde leԱr", Kind.RARE_CHAR, "glue"),
        ("theĠend.ĊNow ofĠit,ĠandĠmoreĠof", Kind.RARE_CHAR, "debris"),
        ("æĺ¯ä½łæĺ¯ä½łæĺ¯ä½ł", Kind.RARE_CHAR, "debris"),
        ("\u0378\u0379 and \u0382 x", Kind.RARE_CHAR, "unassigned"),
    ],
)  # fmt: skip
def test_each_mark_acts_by_its_rule(text: str, kind: Kind, rule: str) -> None:
    judgement = judged(HEAD + text)
    assert (judgement.level, judgement.kind, judgement.unit) == (Level.CORRUPT, kind, rule)


@pytest.mark.parametrize(
    "text",
    [
        "na\ufffdve caf\ufffd only two",
        "a split character at the very end \ufffd\ufffd\ufffd",
        "BERT knows [PAD] and [MASK], nothing else; array[3] <- x[12] <b>bold</b> <s>struck</s>",
        "ftp-сервер, HTTP-запрос, yaml-файл; 10 μm, Δt, 5 °C, naïve café, Ångström, x → y ≤ z",
        "Reactとvueを使う。dockerの設定。",
        "Запустить git-ом, JSONом, APIшкой",
        "使用docker部署，再用kubectl检查pod状态，然后用curl测试api接口",
        "Spark line: ▁▂▃▄▅▆▇█ and ░▒▓ bars, ─│┌┐ boxes, ✓ ✗ ★",
        "new emoji \U0001fae8\U0001fa77\U0001fabb\U0001fae8\U0001fa77",
        "Ġorġ u Ċensu marru Għawdex mal-Ħadd",
        "ทดสอบ API และ docker ด้วย kubectl",
        "도커를 쓰고 git을 배우고 docker와 react를 비교",
    ],
)
def test_ordinary_mixtures_stay_silent(text: str) -> None:
    assert judged(HEAD + text + " and so on").level is Level.CLEAN if not text.endswith("\ufffd") else True
    assert judged(HEAD + text).level is Level.CLEAN


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("na\ufffdve caf\ufffd and \ufffdber so", "Repair this: caf\ufffd"),
        ("[PAD] [PAD] [unused12] x", "What do [PAD] and [CLS] mean?"),
        ("theĠend.ĊNow ofĠit,ĠandĠmoreĠof", "Why does GPT-2 print theĠend ?"),
        ("ballгот ремonta bisга", "Переведи слово"),
        ("\u0378\u0379 and \u0382 x", "Is \u0378 a character?"),
    ],
)
def test_what_the_prompt_holds_is_no_mark(text: str, prompt: str) -> None:
    assert judged(HEAD + text).level is Level.CORRUPT
    assert judged(HEAD + text, prompt=prompt).level is Level.CLEAN


def test_a_script_of_the_answers_own_glues_more_freely() -> None:
    assert judged(RUSSIAN + " подfoldить resetнуть командой").level is Level.CLEAN


def test_chinese_prose_with_latin_names_is_silent() -> None:
    assert judged(CHINESE).level is Level.CLEAN


def test_replacement_characters_count_once_text_follows_them() -> None:
    assert judged(HEAD + "\ufffd\ufffd\ufffd").level is Level.CLEAN
    assert judged(HEAD + "\ufffd\ufffd\ufffd.").kind is Kind.GARBLED


def test_glue_between_few_scripts_turns_to_rare_characters_as_more_show() -> None:
    few = HEAD + "ballгот ремonta "
    assert judged(few).kind is Kind.GARBLED
    assert judged(few + "Gฒtob anጋle reქti moנde leԱr").kind is Kind.RARE_CHAR


def test_the_first_of_the_rules_is_reported() -> None:
    text = HEAD + "na\ufffdve caf\ufffd and \ufffdber [PAD] [PAD] [PAD] x"
    assert judged(text).unit == "special"


TEXT = "see ballгот, ремonta; [unused7]<|fim|>[PAD] th⠛ny æĺ¯ä½łæĺ¯ä½łæĺ¯ä½ł na\ufffd\ufffdve \ufffd."


@given(st.lists(st.integers(1, 9), max_size=40))
def test_cuts_anywhere_give_the_same_marks(cuts: list[int]) -> None:
    inspector = Inspector(RequestFacts(dialect="t"), WorkerFacts(), RULES.detectors, RULES.fusion)
    at = 0
    for size in [*cuts, len(TEXT)]:
        inspector.read([Delta(text=TEXT[at : at + size])], 0.0)
        at += size
    state = next(s for s in inspector._choices[0].states if hasattr(s, "glued"))
    assert state.counts == {"special": 3, "debris": 6, "unassigned": 0, "glue": 3, "replacement": 3}


CHARSET = "ČčΑΒΓΔАБВГـفقاب─│┌äöπΣждяאבג"


@pytest.mark.parametrize("size", [1, 5, 9, 200])
def test_a_table_of_characters_is_no_word_however_it_arrives(size: int) -> None:
    text = f'{HEAD} chars: "{CHARSET}" and so on'
    inspector = Inspector(RequestFacts(dialect="t"), WorkerFacts(), RULES.detectors, RULES.fusion)
    for at in range(0, len(text), size):
        inspector.read([Delta(text=text[at : at + size])], 0.0)
    assert inspector.finish(0.0, clean=True).level is Level.CLEAN


def test_glue_in_a_shorter_row_speaks_once_the_row_has_ended() -> None:
    assert judged(f"{HEAD} {CHARSET[:12]} and so on").level is Level.CORRUPT
