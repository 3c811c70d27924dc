"""Changes that the fleet shows and that somebody tells, newest first to be suspected."""

from service.core.changes import CHANGES_MAX, WHAT_CHARS, Changes
from service.core.events import Drafter, WorkerFacts

ONE = WorkerFacts("http://d1", Drafter.MODEL, 4)


def whats(changes: Changes, since: float = 0.0) -> list[tuple[str, str]]:
    return [(change.worker, change.what) for change in changes.since(since)]


def test_what_is_there_from_the_start_is_no_change() -> None:
    changes = Changes()
    changes.see([ONE], 1.0)
    changes.see([ONE], 2.0)
    assert whats(changes) == []


def test_workers_that_come_go_and_draft_otherwise_are_changes() -> None:
    changes = Changes()
    changes.see([ONE], 1.0)
    changes.see([ONE, WorkerFacts("http://d2")], 2.0)
    changes.see([WorkerFacts("http://d1", Drafter.NGRAM, 7)], 3.0)
    assert whats(changes) == [
        ("http://d2", "the worker was added"),
        ("http://d2", "the worker was removed"),
        ("http://d1", "its drafter is ngram, and was model"),
        ("http://d1", "it drafts 7 tokens, and drafted 4"),
    ]


def test_to_learn_what_a_worker_is_is_no_change() -> None:
    changes = Changes()
    for seen in (WorkerFacts("http://d1"), ONE, WorkerFacts("http://d1"), ONE):
        changes.see([seen], 1.0)
    assert whats(changes) == []


def test_a_router_that_is_away_changes_nothing() -> None:
    changes = Changes()
    changes.see([ONE], 1.0)
    changes.see([], 2.0)
    changes.see([ONE], 3.0)
    assert whats(changes) == []


def test_somebody_may_tell_of_a_change_and_is_cut_short() -> None:
    changes = Changes()
    told = changes.tell(5.0, "x" * 1000, "http://d1")
    assert (told.told, len(told.what)) == (True, WHAT_CHARS)
    assert changes.since(5.0) == (told,)
    assert changes.since(5.1) == ()


def test_the_newest_are_kept() -> None:
    changes = Changes()
    for number in range(CHANGES_MAX + 10):
        changes.tell(float(number), str(number))
    kept = changes.since(0.0)
    assert (len(kept), kept[-1].what) == (CHANGES_MAX, str(CHANGES_MAX + 9))
