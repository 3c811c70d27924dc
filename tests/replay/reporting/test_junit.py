"""JUnit: what fails a pipeline, and what only says that nothing was learnt."""

from xml.etree import ElementTree as ET

import msgspec
import pytest

from replay.judge import Judged, judge
from replay.judging.verdict import Outcome
from replay.reporting.junit import junit
from tests.replay.judging.made import planned, ran, rules


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    home = tmp_path_factory.mktemp("run")
    header, sends = planned(home / "p")
    ran(home / "r", header, sends)
    return judge(home / "p", home / "r", rules())


def _suite(found: Judged) -> ET.Element:
    return ET.fromstring(junit(found))  # noqa: S314 - our own


def test_a_clean_run_passes_everything(clean: Judged) -> None:
    suite = _suite(clean)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "4",
        "0",
        "0",
        "0",
    )
    assert next(one.get("name") for one in suite) == "wrong: peak against idle"


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Outcome.LOAD_DEPENDENT, "failure"),
        (Outcome.UNDECIDED, "skipped"),
        (Outcome.SCHEDULE_NOT_KEPT, "error"),
        (Outcome.BACKEND_FAILING, "error"),
    ],
)
def test_each_outcome_has_its_word(clean: Judged, outcome: Outcome, word: str) -> None:
    verdict = msgspec.structs.replace(clean.verdict, verdict=outcome, why='p < "0.05" & so')
    (only,) = _suite(msgspec.structs.replace(clean, verdict=verdict))[0]
    assert (only.tag, only.get("message")) == (word, f'{outcome}: p < "0.05" & so')


def test_schedule_backend_and_cross_talk_are_tests_of_their_own(clean: Judged) -> None:
    schedule = msgspec.structs.replace(clean.schedule, kept=False)
    canaries = msgspec.structs.replace(clean.canaries, leaks={"a": ["b"]})
    levels = [msgspec.structs.replace(one, failures={"error": 900}) for one in clean.levels]
    suite = _suite(msgspec.structs.replace(clean, schedule=schedule, canaries=canaries, levels=levels))
    assert [[inner.tag for inner in one] for one in suite] == [[], ["error"], ["error"], ["failure"]]
