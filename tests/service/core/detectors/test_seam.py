import pytest

from service.core.detectors.seam import Seam
from service.core.events import Finding, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import CHINESE, CODE, HEALTHY, RULES, deltas, prose

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Seam))
ENGLISH = "To clean the lens, breathe on it gently and wipe it with a soft cloth in small cir"


def said(text: str) -> list[Finding]:
    inspector = Inspector(RequestFacts(dialect="t"), WorkerFacts(), [RULE], RULES.fusion)
    inspector.read(deltas(text), 0.0)
    inspector.finish(1.0, clean=True)
    return list(inspector.findings())


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (ENGLISH + CHINESE[20:], "into Han"),
        (CHINESE[:30] + ENGLISH[3:].lower() + "cles.", "out of Han"),
        (
            CODE[:60] + "    result = total[-1irst take it out and look for shiny spots along the",
            "out of code",
        ),
    ],
)
def test_a_sentence_that_goes_on_as_something_else_has_a_seam(text: str, unit: str) -> None:
    assert [finding.unit for finding in said(text)] == [unit]


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH + "cles. " + CHINESE,
        ENGLISH + "cles: “" + CHINESE,
        "先看一下 the quick brown fox jumps over the lazy dog near the river bank，这句话包含所有字母。",
        "我们用docker compose up来启动服务，然后再检查日志里有没有错误信息出现。",
        CODE + "# result[-1 is the last one and the others are kept in order of start\n",
        'raise ValueError("values[0 must be given before any other value is used here")\n',
        prose(1, 60),
    ],
)
def test_mixtures_that_are_meant_have_none(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_text_is_of_one_piece(case: str) -> None:
    assert said(HEALTHY[case]) == []
