import random

import pytest

from service.core.detectors.shift import Shift
from service.core.events import Drafter, Finding, Kind, Level, RequestFacts, Step, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import CHINESE, HEALTHY, RULES, deltas, prose

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Shift))
RARE_HAN = "谠蚣仡丐篪薮琏穰醵伧蛘锓趵芨襻馑囟柩噤楣坼粲讷圯纭驷镦蟾舡箫"


def said(text: str, prompt: str = "") -> list[Finding]:
    inspector = Inspector(RequestFacts(dialect="t", prompt=prompt), WorkerFacts(), [RULE], RULES.fusion)
    for delta in deltas(text):
        inspector.read([delta], 0.0)
    inspector.finish(1.0, clean=True)
    return list(inspector.findings())


def near_loop(words: int) -> str:
    """The lab's own: `reading reading added reading ...`, no two stretches alike."""
    rng = random.Random(1)
    return " ".join(rng.choice(["reading"] * 8 + ["added", "convert"]) for _ in range(words))


def test_a_near_loop_is_a_stutter() -> None:
    (finding,) = said(prose(1, 40) + " " + near_loop(400))
    assert (finding.kind, finding.unit, finding.log10_e) == (Kind.REPETITION, "stutter", RULE.witness_log10)


def test_chinese_that_turns_rare_is_a_sign_unless_it_was_rare_all_along() -> None:
    turned = CHINESE * 2 + "".join(a + b for a, b in zip(CHINESE[:30], RARE_HAN, strict=True))
    assert [finding.unit for finding in said(turned)] == ["rare"]
    assert said(RARE_HAN * 3) == []
    assert said(turned, prompt="解释这些字：" + RARE_HAN * 5) == []


def test_four_scripts_at_once_are_babel_unless_the_prompt_has_them() -> None:
    text = prose(2, 40) + " мост ক্ষতি ዋጋ გზა река তারা ሰላም ხიდი дом গাছ ቤት წყალი лес নদী ውሃ მთა"
    assert [finding.unit for finding in said(text)] == ["babel"]
    assert said(text, prompt="Translate bridge: мост, তারা, ሰላም, ხიდი") == []


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_text_is_like_itself(case: str) -> None:
    assert said(HEALTHY[case]) == []


def test_a_sign_alone_does_not_even_suspect_but_seconds_collapsed_acceptance() -> None:
    text = prose(1, 40) + " " + near_loop(400)
    quiet = Inspector(RequestFacts(dialect="t"), WorkerFacts(), RULES.detectors, RULES.fusion)
    quiet.read(deltas(text), 0.0)
    assert quiet.judgement.level is Level.CLEAN
    worker = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)
    both = Inspector(RequestFacts(dialect="t"), worker, RULES.detectors, RULES.fusion)
    for delta in deltas(text):  # a token an event: every draft is refused
        both.read([delta], 0.0)
    assert both.steps > 100
    assert (both.judgement.level, both.judgement.kind) == (Level.CORRUPT, Kind.REPETITION)
    assert Step(3, 0).accepted == 0
