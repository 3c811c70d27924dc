"""Exact verify steps by rid, and an honest word on what was lost."""

import pytest

from service.core.events import UNKNOWN
from service.core.probe_feed import MAX_UNTAKEN, OLD_EPOCH_S, Pair, ProbeFeed, key_of
from service.core.telemetry_wire import NO_STEP
from service.probe.wire import sign
from tests.probing import Worker


def test_a_stream_takes_its_own_steps_once() -> None:
    feed, worker = ProbeFeed(), Worker()
    feed.read(worker.step({"a": (0, NO_STEP), "b": (0, NO_STEP)}), 0.0)
    feed.read(worker.step({"a": (1, 3), "b": (1, 0)}), 0.1)
    feed.read(worker.step({"a": (2, 1)}), 0.2)
    assert feed.take("a") == (3, 1)
    assert feed.take("a") == ()
    assert feed.take("b") == (0,)
    assert feed.take("stranger") == ()
    assert feed.whole("a")
    assert not feed.whole("stranger")
    assert feed.worker("a") == "http://d:1"


def test_a_request_has_the_rank_that_decodes_it() -> None:
    feed = ProbeFeed()
    feed.read(Worker(dp_rank=0).step({"a": (1, 3)}), 0.0)
    feed.read(Worker(dp_rank=3).step({"b": (1, 3)}), 0.0)
    feed.read(Worker("http://plain").step({"c": (1, 3)}), 0.0)
    assert [feed.dp_rank(rid) for rid in ("a", "b", "c", "stranger")] == [0, 3, UNKNOWN, UNKNOWN]


def test_a_lost_datagram_is_a_gap_and_the_rest_stays_exact() -> None:
    feed, worker = ProbeFeed(), Worker()
    feed.read(worker.step({"a": (1, 3)}), 0.0)
    worker.step({"a": (2, 2)})  # never arrives
    feed.read(worker.step({"a": (3, 1)}), 0.2)
    assert feed.take("a") == (3, 1)
    assert not feed.whole("a")
    assert (feed.counts["gaps"], feed.counts["missed"]) == (1, 1)
    assert feed.senders()[0].missed == 1


def test_a_stream_joined_late_is_not_whole() -> None:
    feed = ProbeFeed()
    feed.read(Worker().step({"a": (7, 3)}), 0.0)
    assert feed.take("a") == (3,)
    assert not feed.whole("a")
    assert feed.counts["joined_late"] == 1


def test_arrivals_and_moving_requests_share_a_datagram() -> None:
    feed, worker = ProbeFeed(), Worker()
    feed.read(worker.step({"a": (1, 3), "b": (0, NO_STEP), "c": (1, 1)}), 0.0)
    assert (feed.take("a"), feed.take("b"), feed.take("c")) == ((3,), (), (1,))
    assert feed.counts["streams"] == 3


def test_a_rid_used_again_starts_anew() -> None:
    feed, worker = ProbeFeed(), Worker()
    feed.read(worker.step({"a": (1, 3)}), 0.0)
    feed.read(worker.step({"a": (0, NO_STEP)}), 1.0)
    feed.read(worker.step({"a": (1, 2)}), 1.1)
    assert feed.take("a") == (2,)
    assert feed.whole("a")


def test_a_replayed_or_late_datagram_is_counted_and_dropped() -> None:
    feed, worker = ProbeFeed(), Worker()
    first = worker.step({"a": (1, 3)})
    feed.read(first, 0.0)
    feed.read(worker.step({"a": (2, 1)}), 0.1)
    feed.read(first, 0.2)
    assert feed.take("a") == (3, 1)
    assert feed.counts["old_counter"] == 1


def test_a_restarted_worker_begins_a_new_epoch() -> None:
    feed = ProbeFeed()
    feed.read(Worker(epoch=5).step({"a": (1, 3)}), 0.0)
    feed.read(Worker(epoch=6).step({"b": (1, 2)}), 0.1)
    assert feed.take("b") == (2,)
    assert feed.counts["missed"] == 0


def test_an_older_epoch_is_refused_until_the_newer_has_been_silent() -> None:
    feed, old = ProbeFeed(), Worker(epoch=5)
    feed.read(Worker(epoch=6).step({"a": (1, 3)}), 0.0)
    feed.read(old.step({"a": (2, 3)}), 1.0)
    assert feed.counts["old_epoch"] == 1
    feed.read(old.step({"b": (1, 2)}), OLD_EPOCH_S + 1)  # its clock was set back, and it restarted
    assert feed.take("b") == (2,)


def test_a_bad_mac_is_counted_and_goes_nowhere() -> None:
    feed, worker, key = ProbeFeed(), Worker(), b"k" * 20
    feed.read(worker.step({"a": (1, 3)}), 0.0, key)
    feed.read(sign(worker.step({"a": (1, 3)}), b"x" * 20), 0.0, key)
    feed.read(sign(worker.step({"a": (1, 1)}), key), 0.0, key)
    assert feed.take("a") == (1,)
    assert feed.counts["bad_mac"] == 2


def test_the_bootstrap_room_names_the_pair() -> None:
    feed = ProbeFeed()
    prefill, decode = Worker("http://p:1", "prefill"), Worker("http://d:1", "decode")
    feed.read(prefill.step({"its own rid": (0, NO_STEP)}, room=77), 0.0)
    feed.read(decode.step({"a": (0, NO_STEP)}, room=77), 0.1)
    feed.read(decode.step({"a": (1, 2)}, room=77), 0.2)
    assert feed.pair("a") == Pair("http://p:1", "http://d:1")
    assert feed.take("a") == (2,)
    assert feed.worker("its own rid") == ""


def test_an_unseen_leg_stays_unknown() -> None:
    feed, decode = ProbeFeed(), Worker("http://d:1", "decode")
    feed.read(decode.step({"a": (0, NO_STEP)}, room=77), 0.0)
    feed.read(decode.step({"b": (0, NO_STEP)}), 0.0)
    assert feed.pair("a") == Pair("", "http://d:1")
    assert feed.pair("b") == Pair()
    assert feed.pair("stranger") == Pair()


def test_a_probe_covers_its_worker_while_it_is_heard() -> None:
    feed, worker = ProbeFeed(), Worker()
    assert not feed.covers("http://d:1", 0.0)
    feed.read(worker.status("0.5.23"), 0.0)
    assert feed.covers("http://d:1", 1.0)
    assert not feed.covers("http://other:1", 1.0)
    assert not feed.covers("http://d:1", 100.0)
    feed.read(worker.status("AttributeError spec_verify_ct in _step", aside=True), 100.0)
    assert not feed.covers("http://d:1", 100.0)
    assert feed.senders()[0].text == "AttributeError spec_verify_ct in _step"


def test_load_and_depth_are_the_newest() -> None:
    feed = ProbeFeed()
    feed.read(Worker().step({"a": (1, 3)}), 0.0)
    sender = feed.senders()[0]
    assert (sender.load.running, sender.load.moving, sender.depth) == (1, 4, 3)


def test_steps_that_nobody_takes_are_bounded() -> None:
    feed, worker = ProbeFeed(), Worker()
    for step in range(1, 2 * MAX_UNTAKEN + 1):
        feed.read(worker.step({"a": (step, 1)}), 0.0)
    assert len(feed.take("a")) <= MAX_UNTAKEN
    assert not feed.whole("a")
    assert feed.counts["untaken"] == 1


def test_a_probe_that_says_the_same_step_for_ever_is_bounded_as_well() -> None:
    feed, worker = ProbeFeed(), Worker()
    most = 0
    for _ in range(5 * MAX_UNTAKEN):
        feed.read(worker.step({"a": (1, 3)}), 0.0)
        most = max(most, len(feed._young[key_of("a")].steps))
    assert most <= 2 * MAX_UNTAKEN
    assert not feed.whole("a")


def test_forgotten_streams_are_let_go_and_live_ones_kept() -> None:
    feed, worker = ProbeFeed(), Worker()
    feed.read(worker.step({"a": (1, 1), "gone": (1, 1)}), 0.0)
    for now in (0.0, 130.0, 260.0):
        feed.tick(now)
        feed.read(worker.step({"a": (2 + int(now), 1)}), now)
    assert feed.take("gone") == ()
    assert feed.worker("a")


@pytest.mark.parametrize("mode", ["null", "decode", "prefill"])
def test_a_flood_of_streams_stays_within_two_generations(mode: str) -> None:
    feed, worker = ProbeFeed(streams_max=10), Worker(mode=mode)
    for number in range(100):
        feed.read(worker.step({f"r{number}": (0, NO_STEP)}, room=number), 0.0)
    assert len(feed._young) + len(feed._old) <= 20
    assert len(feed._rooms) + len(feed._old_rooms) <= 20


def test_a_full_generation_keeps_the_steps_of_who_moves_on() -> None:
    feed, worker = ProbeFeed(streams_max=10), Worker()
    feed.read(worker.step({"a": (1, 3)}), 0.0)
    for number in range(10):
        feed.read(worker.step({f"r{number}": (0, NO_STEP)}), 0.0)
    feed.read(worker.step({"a": (2, 1)}), 0.0)
    assert feed.take("a") == (3, 1)
    assert feed.whole("a")


def test_a_flood_of_senders_is_refused() -> None:
    feed = ProbeFeed()
    for number in range(1100):
        feed.read(Worker(f"http://{number}").status(""), 0.0)
    assert len(feed.senders()) == 1024
    assert feed.counts["senders_full"] == 76


def test_a_repr_shows_sizes_only() -> None:
    feed = ProbeFeed()
    feed.read(Worker().step({"a": (1, 3)}), 0.0)
    assert repr(feed) == "<ProbeFeed 1 senders, 1 streams>"
