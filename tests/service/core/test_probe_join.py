"""Steps go to the attempt, the choice and the event they belong to, each of them once."""

import json

from service.core.events import UNKNOWN, Delta, StepKind
from service.core.probe_feed import Pair, ProbeFeed
from service.core.probe_join import ProbeJoin, kind_of
from service.core.telemetry_wire import NO_STEP
from tests.probing import Worker


def chat(rid: str, index: int = 0) -> bytes:
    return json.dumps({"id": rid, "object": "chat.completion.chunk", "choices": [{"index": index}]}).encode()


def generate(rid: str, index: int = 0) -> bytes:
    return json.dumps({"text": "x", "meta_info": {"id": rid}, "index": index}).encode()


def heard(*datagrams: bytes) -> ProbeFeed:
    feed = ProbeFeed()
    tell(feed, *datagrams)
    return feed


def tell(feed: ProbeFeed, *datagrams: bytes) -> None:
    for datagram in datagrams:
        feed.read(datagram, 0.0)


def test_steps_go_to_the_first_event_since_the_last_look() -> None:
    worker = Worker()
    feed = heard(worker.step({"r": (0, NO_STEP)}))
    join = ProbeJoin(feed, "r", 1)
    assert join.join([chat("r")], [Delta(text="a")]) == [Delta(text="a")]
    tell(feed, *worker.series("r", 3, 1))
    first, second = join.join([chat("r")] * 2, [Delta(text="b"), Delta(text="c")])
    assert (first.exact, second.exact) == ((3, 1), ())
    assert join.whole
    assert join.worker == "http://d:1"


def test_the_chunks_own_id_finds_the_steps_behind_a_router_that_dropped_ours() -> None:
    join = ProbeJoin(heard(*Worker().series("engine-rid", 2)), "ours", 1)
    assert join.join([chat("engine-rid")], [Delta(text="a")])[0].exact == (2,)


def test_our_rid_finds_them_where_a_gateway_writes_an_id_of_its_own() -> None:
    join = ProbeJoin(heard(*Worker().series("ours", 2)), "ours", 1)
    assert join.join([chat("chatcmpl-123")], [Delta(text="a")])[0].exact == (2,)
    assert join.worker == "http://d:1"


def test_the_rank_is_found_by_whichever_id_is_the_engines() -> None:
    join = ProbeJoin(heard(*Worker(dp_rank=2).series("engine-rid", 2)), "ours", 1)
    assert join.dp_rank == UNKNOWN
    join.join([chat("engine-rid")], [Delta(text="a")])
    assert join.dp_rank == 2


def test_each_choice_has_the_steps_of_its_own_id() -> None:
    worker = Worker()
    feed = heard(worker.step({"a": (1, 3), "b": (1, 0)}))
    join = ProbeJoin(feed, "ours", 2)
    deltas = join.join([chat("a", 0), chat("b", 1)], [Delta(0, "x"), Delta(1, "y")])
    assert [delta.exact for delta in deltas] == [(3,), (0,)]
    assert join.whole


def test_steps_of_a_choice_without_an_event_wait_for_its_next() -> None:
    worker = Worker()
    feed = heard(worker.step({"a": (1, 3), "b": (1, 0)}))
    join = ProbeJoin(feed, "ours", 2)
    join.join([generate("a", 0), generate("b", 1)], [Delta(0), Delta(1)])
    tell(feed, worker.step({"a": (2, 1), "b": (2, 2)}))
    assert join.join([generate("a", 0)], [Delta(0, "x")])[0].exact == (1,)
    assert join.join([generate("b", 1)], [Delta(1, "y")])[0].exact == (2,)


def test_a_choice_nobody_asked_for_is_left_alone() -> None:
    join = ProbeJoin(heard(*Worker().series("x", 1)), "ours", 2)
    assert join.join([chat("x", 7)], [Delta(7)]) == [Delta(7)]
    assert not join.whole


def test_steps_carried_by_the_chunks_are_not_counted_twice() -> None:
    worker = Worker()
    join = ProbeJoin(heard(*worker.series("r", 3)), "r", 1)
    assert join.join([generate("r")], [Delta(exact=(3,))])[0].exact == (3,)
    assert join.join([generate("r")], [Delta(exact=(1,))])[0].exact == ()  # its datagram is still to come


def test_chunks_that_carry_steps_are_believed_where_no_datagram_came_before() -> None:
    worker = Worker()
    feed = heard(worker.step({"other": (1, 0)}))
    join = ProbeJoin(feed, "r", 1)
    assert join.join([generate("r")], [Delta(exact=(3,))])[0].exact == (3,)
    tell(feed, *worker.series("r", 3))
    assert join.join([generate("r")], [Delta(exact=(1,))])[0].exact == (1,)
    assert join.rest() == []
    assert join.whole


def test_what_comes_after_the_last_event_is_the_rest_and_comes_once() -> None:
    worker = Worker()
    feed = heard(*worker.series("r", 3))
    join = ProbeJoin(feed, "r", 1)
    join.join([chat("r")], [Delta(text="a")])
    tell(feed, *worker.series("r", 2, first=2))
    assert join.rest() == [Delta(exact=(2,))]
    assert join.rest() == []


def test_steps_that_ran_ahead_of_their_text_claim_no_tokens() -> None:
    join = ProbeJoin(heard(*Worker().series("r", *[3] * 100)), "r", 1)
    assert join.join([chat("r")], [Delta(text="a")])[0].tokens == UNKNOWN


def test_a_series_with_a_hole_is_not_called_exact() -> None:
    worker = Worker()
    lost, kept = worker.series("r", 3, 1)
    assert lost != kept
    join = ProbeJoin(heard(kept), "r", 1)
    join.join([chat("r")], [Delta(text="a")])
    assert kind_of(join, StepKind.EXACT) == "gapped"
    assert kind_of(join, StepKind.UPPER) == "upper"
    assert kind_of(None, StepKind.EXACT) == "exact"


def test_the_pair_is_named_where_both_probes_were_heard() -> None:
    prefill, decode = Worker("http://p:1", "prefill"), Worker("http://d:1", "decode")
    rows = {"r": (0, NO_STEP)}
    join = ProbeJoin(heard(prefill.step(rows, room=7), decode.step(rows, room=7)), "r", 1)
    assert join.pair == Pair("http://p:1", "http://d:1")
    assert ProbeJoin(ProbeFeed(), "r", 1).pair == Pair()


def test_nothing_is_looked_for_while_no_probe_was_heard() -> None:
    feed = ProbeFeed()
    join = ProbeJoin(feed, "ours", 1)
    deltas = [Delta(text="a")]
    assert join.join([chat("x")], deltas) is deltas
    tell(feed, *Worker().series("x", 2))
    assert join.join([chat("x")], deltas)[0].exact == (2,)


def test_events_that_cannot_be_read_name_nobody() -> None:
    join = ProbeJoin(heard(*Worker().series("r", 2)), "r", 1)
    assert join.join([b"{", b"[]", b'{"id":7}'], [Delta(malformed=True)])[0].exact == (2,)
