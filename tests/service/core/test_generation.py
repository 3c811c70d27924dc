from service.core.desk import Desk
from service.core.events import UNKNOWN, Drafter, Ending, Level, RequestFacts, WorkerFacts
from service.core.generation import Generation
from service.core.probe_feed import ProbeFeed
from tests.probing import Worker
from tests.service.core.toy import ASKED, DONE, PLAIN, WORKER, ToyDialect, desk, event


def generation(*, asked: bool = False) -> Generation:
    made = Generation("r", RequestFacts("toy", stream=True), ToyDialect(), ASKED if asked else PLAIN, 0.0)
    made.open(200, WORKER, streamed=True, desk=desk(), now=0.0)
    return made


def test_the_first_event_is_looked_at_alone_then_in_batches() -> None:
    made = generation()
    made.put(event("a", 1), 0.0)
    assert made.wants_look(8)
    made.look(0.0)
    for place in range(7):
        made.put(event("b", 2 + place), 0.1)
        assert not made.wants_look(8)
    made.put(event("c", 9), 0.1)
    assert made.wants_look(8)


def test_cut_bytes_go_out_at_once_and_are_judged_later() -> None:
    made = generation(asked=True)
    whole = event("BAD", 1, asked=True)
    assert made.put_cut(whole[:20], 0.0) == b""
    assert made.put_cut(whole[20:], 0.0) == event("BAD", 1)
    assert made.look(0.1).level is Level.CORRUPT


def test_it_remembers_what_the_end_needs_to_know() -> None:
    made = generation()
    for data in (event("a", 1), event("{", 2, x=True)):
        made.put(data, 0.0)
    made.look(0.0)
    assert (made.tokens, made.tool_open, made.finish) == (2, True, "")
    made.put(event("", 3, finish="tool_calls") + DONE, 0.1)
    made.look(0.1)
    assert (made.tokens, made.tool_open, made.finish) == (3, False, "tool_calls")
    attempt = made.attempt()
    assert (attempt.rid, attempt.worker, attempt.tokens) == ("r", WORKER.url, 3)


def test_the_same_text_has_the_same_fingerprint_at_any_batching() -> None:
    one, two = generation(), generation()
    for text in ("ab", "cd", "é"):
        one.put(event(text, 1), 0.0)
        one.look(0.0)
        two.put(event(text, 1), 0.0)
    two.look(0.0)
    assert one.text_crc == two.text_crc != generation().text_crc


def test_a_failed_status_is_not_inspected() -> None:
    made = Generation("r", RequestFacts("toy"), ToyDialect(), PLAIN, 0.0)
    made.open(500, WORKER, streamed=False, desk=desk(), now=0.0)
    assert made.inspector is None
    made.close(Ending.BROKEN, 1.0)
    attempt = made.attempt()
    assert (attempt.status, attempt.tokens, attempt.ending) == (500, UNKNOWN, Ending.BROKEN)


def test_comments_do_not_count_as_heard() -> None:
    made = generation()
    made.put(event("a", 1), 1.0)
    made.put(b": ping\n\n", 5.0)
    assert made.heard_at == 1.0


def probed(feed: ProbeFeed, worker: WorkerFacts = WORKER) -> tuple[Generation, Desk]:
    shared = desk()
    shared.probes = feed
    made = Generation("r", RequestFacts("toy", stream=True), ToyDialect(), PLAIN, 0.0)
    made.open(200, worker, streamed=True, desk=shared, now=0.0)
    return made, shared


def test_the_probes_steps_are_the_attempts_steps() -> None:
    feed, worker = ProbeFeed(), Worker()
    made, _ = probed(feed)
    for accepted, tokens in ((3, 5), (0, 6), (2, 9)):
        feed.read(worker.series("r", accepted, first={3: 1, 0: 2, 2: 3}[accepted])[0], 0.0)
        made.put(event("a", tokens), 0.0)
    made.look(0.0)
    attempt = made.attempt()
    assert (attempt.steps, attempt.accept_length, attempt.telemetry) == (3, 1 + 5 / 3, "exact")
    assert attempt.accepted == ()  # nothing stands against it


def test_steps_that_come_after_the_last_event_still_count() -> None:
    feed = ProbeFeed()
    made, _ = probed(feed)
    for datagram in Worker().series("r", 3, 1):
        feed.read(datagram, 0.0)
        if not made.events_seen:
            made.put(event("a", 5), 0.0)
            made.look(0.0)
    made.close(Ending.COMPLETE, 1.0)
    assert (made.attempt().steps, made.attempt().telemetry) == (2, "exact")


def test_a_body_in_one_piece_has_its_steps_too() -> None:
    feed = ProbeFeed()
    made, _ = probed(feed)
    for datagram in Worker().series("r", 3, 1):
        feed.read(datagram, 0.0)
    made.whole(b'{"t": "ab", "n": 7, "f": "stop"}', 0.0)
    assert (made.attempt().steps, made.attempt().telemetry) == (2, "exact")


def test_a_worker_that_no_header_names_is_named_by_its_probe() -> None:
    feed = ProbeFeed()
    made, shared = probed(feed, WorkerFacts())
    shared.fleet.know("http://d:1", Drafter.MODEL, 3)
    feed.read(Worker("http://d:1").series("r", 3)[0], 0.0)
    made.put(event("a", 5), 0.0)
    made.look(0.0)
    assert made.worker == shared.fleet.worker("http://d:1")
    assert made.attempt().worker == "http://d:1"


def test_without_a_probe_growth_is_told_as_what_it_is() -> None:
    made = generation()
    for tokens in (1, 3, 5):
        made.put(event("a", tokens), 0.0)
    made.look(0.0)
    assert made.attempt().telemetry == "upper"
    assert generation().attempt().telemetry == "none"


def test_held_bytes_count_until_they_are_looked_at_and_torn_events_wait_for_their_rest() -> None:
    made = generation()
    whole = event("a", 1)
    made.put(whole[:9], 0.0)
    assert not made.wants_look(8)
    made.put(whole[9:] + event("b", 2), 0.1)
    assert (made.wants_look(8), made.pending_bytes) == (True, len(whole) + len(event("b", 2)))
    assert made.look_held(0.2) == (whole + event("b", 2), 2)
    assert (made.tokens, made.pending_bytes) == (2, 0)


def test_an_attempt_with_something_against_it_shows_its_steps() -> None:
    shared = desk()
    made = Generation("r", RequestFacts("toy", stream=True), ToyDialect(), PLAIN, 0.0)
    made.open(200, WORKER, streamed=True, desk=shared, now=0.0)
    for text, tokens in (("a", 1), ("b", 4), ("BAD", 6), ("c", 7)):
        made.put(event(text, tokens), 0.0)
    made.look(0.0)
    assert made.attempt().accepted == (2, 1)
