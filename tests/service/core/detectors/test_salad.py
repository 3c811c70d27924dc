from zlib import crc32

import pytest

from service.core.detectors.salad import Salad
from service.core.events import Finding, Kind, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import HEALTHY, RULES, deltas, judged, prose

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Salad))


def said(text: str, prompt: str = "") -> list[Finding]:
    inspector = Inspector(RequestFacts(dialect="t", prompt=prompt), WorkerFacts(), [RULE], RULES.fusion)
    inspector.read(deltas(text), 0.0)
    inspector.finish(1.0, clean=True)
    return list(inspector.findings())


@pytest.mark.parametrize(
    "text",
    [
        "the function classes <|reserved_token_163672|> 义绩 гюлд return",
        "Ihavu nsáh What Gฒtobaihiety brace loli dump here Lauv ؠرو Fud ending",
        "so it went дулюх and then ბათ more ጋሽ of the دار kind",
        ':ok, : Soleosl, $16\ufffd3,behaut," ms6, :C9(18$.mm\nAb) para, : j2, : c1\\2,;\nab2,\n\n, abo2,',
    ],
)
def test_oddities_that_together_do_not_happen_are_a_salad(text: str) -> None:
    assert [finding.unit for finding in said(text)] == ["points"]


@pytest.mark.parametrize(
    "text",
    [
        "BERT pads with [PAD] and GPT-2 ends with <|endoftext|>.",
        "In Russian (мир), Greek (ειρήνη) and Thai (สันติภาพ) the word is short.",
        "Запустить git-ом, JSONом, APIшкой",
        "使用docker部署，再用kubectl检查pod状态，然后用curl测试api接口",
        "도커를 쓰고 git을 배우고 docker와 react를 비교",
        "Reactとvueを使う。dockerの設定。",
        "naïve café, Ångström, fooBar2baz and x86_64asm",
        "ru: мир\nel: ειρήνη\nth: สันติภาพ\nka: მშვიდობა\nam: ሰላም\n",
    ],
)
def test_quotations_terms_and_lists_are_none(text: str) -> None:
    assert said(prose(1, 20) + " " + text) == []


def test_brackets_that_close_what_nobody_opened_are_a_salad() -> None:
    assert [finding.unit for finding in said('1.0,0,-0.6),9,"3:"}",5}5\n\nThe `overhead |1,0,-1,0}} }')] == [
        "closers"
    ]
    assert said("a) one\nb) two\nc) three\nd) four\ne) five\nf) six\n") == []
    assert said("});\n}\n});\n}\n}\n") == []


def test_brackets_closed_by_another_kind_are_a_salad() -> None:
    text = "var{ [wonRic] (shaped-2023 (given-orient has a class](new-owf}-ulwad (- hifo { _build: { work: ("
    assert [finding.unit for finding in said(text)] == ["crossed"]


def test_running_text_without_a_favourite_word_is_a_salad() -> None:
    syllables = ["ka", "lo", "mi", "ren", "tu", "sab", "vel", "qui", "dor", "nes", "pha", "zin"]
    words = [a + b + c for a in syllables for b in syllables[:6] for c in syllables[3:6]]
    words = [
        word.capitalize() if place % 5 == 0 else word for place, word in enumerate(sorted(words, key=hash_of))
    ]
    assert [finding.unit for finding in said(" ".join(words[:160]))] == ["wordy"]
    assert said("\n".join(words[:160])) == []
    assert said(" ".join(sorted(words[:160]))) == []
    assert said(prose(2, 200)) == []


def hash_of(word: str) -> int:
    return crc32(word.encode())


def test_two_reforms_of_writing_on_one_line_with_glued_latin_are_a_salad() -> None:
    line = "这个问题coming啄帮计快递uemunudy添業社会读者ewr差読麻綿說明gas开关"
    assert [finding.unit for finding in said(line)] == ["forms"]
    assert said("繁体的「業」「說」「讀」写作简体的“业”“说”“读”，这是规定。") == []


def test_the_prompt_explains_a_script() -> None:
    text = "so it went дулюх and then ბათ more ጋሽ of the دار kind"
    assert said(text, prompt="Use мост, ბათ, ጋሽ and دار in a sentence.") == []


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_text_is_no_salad(case: str) -> None:
    assert said(HEALTHY[case]) == []


def test_a_salad_is_judged_when_the_text_has_ended() -> None:
    assert judged("the classes <|reserved_token_163672|> 义绩 гюлд return").kind is Kind.GARBLED
