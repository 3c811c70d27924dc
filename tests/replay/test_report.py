"""The report: one file, offline, with everything in it and nothing that could run."""

import re
from html.parser import HTMLParser
from pathlib import Path

from replay.judge import judge
from replay.plan import Arm, Send
from replay.report import report
from tests.replay.judging.made import ARMS, WRONG, Change, planned, ran, rules

EVIL = '</pre><script>alert(1)</script>"&<'


class Tags(HTMLParser):
    """Which tags there are, and whether they close."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _page(home: Path, change: Change = lambda _: {}, *, text: bool = True, **wishes: object) -> str:
    header, sends = planned(home / "p", **wishes)  # type: ignore[arg-type]
    ran(home / "r", header, sends, change)
    return report(home / "p", home / "r", judge(home / "p", home / "r", rules()), text=text)


def _bad_at_peak(send: Send) -> dict[str, object]:
    return {"text": WRONG} if send.arm == "peak" and send.id.endswith("3") else {}


def test_the_page_tells_verdict_charts_levels_tests_cases_and_run(tmp_path: Path) -> None:
    page = _page(tmp_path, _bad_at_peak, arms=(*ARMS, Arm(name="busy", load=2)))
    assert '<p class="verdict bad">LOAD-DEPENDENT</p>' in page
    assert page.count("<svg") == 6
    assert re.search(r"Wrong answers: idle 0 of 200 in 0 incidents; peak 20 of 200 in \d+ incidents\.", page)
    assert [title in page for title in ("Levels", "Tests", "Cases", "The run")] == [True] * 4
    assert "trend over all levels" in page
    assert WRONG[5:] in page


def test_the_page_opens_offline_and_runs_nothing(tmp_path: Path) -> None:
    page = _page(tmp_path, lambda send: {"text": EVIL} if send.arm == "peak" else {})
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not tags.seen & {"script", "link", "img", "iframe"}
    assert not re.search(r"(?:src|href)=|url\(|@import", page)
    assert "&lt;script&gt;" in page


def test_a_clean_page_says_that_nothing_was_reproduced(tmp_path: Path) -> None:
    page = _page(tmp_path)
    assert "Not reproduced" in page
    assert "<h2>Cases</h2>" not in page


def test_without_text_the_page_has_none(tmp_path: Path) -> None:
    page = _page(tmp_path, _bad_at_peak, text=False)
    assert WRONG not in page
    assert "Question 3?" not in page
