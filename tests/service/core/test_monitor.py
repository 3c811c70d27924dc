import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.custody import State
from service.core.desk import Desk
from service.core.events import (
    Action,
    Commit,
    Ending,
    Fail,
    Finish,
    Forward,
    Guilty,
    Kind,
    Level,
    Outcome,
    Policy,
    Report,
    RequestFacts,
    Restart,
    WorkerFacts,
)
from service.core.governor import AbortMode
from service.core.monitor import Monitor
from service.core.policy import RoutePolicy
from tests.service.core.toy import ASKED, DONE, OTHER, PLAIN, WORKER, desk, event, monitor, only, sent

CLEAN_STREAM = [
    event("a", 1),
    *(event(f" word{i}", 2 * i) for i in range(1, 40)),
    event("", 78, finish="stop"),
    DONE,
]
STREAMED, WHOLE_BODY = True, False
BOTH = pytest.mark.parametrize("policy", [Policy.PROTECT, Policy.STRICT])
ALL = pytest.mark.parametrize("policy", list(Policy))


def play(
    watch: Monitor, events: list[bytes], *, worker: WorkerFacts = WORKER, start: float = 0.0
) -> list[Action]:
    """Head, then one event each 20 ms; stops where the monitor takes the stream away."""
    actions = list(watch.head(200, worker, STREAMED, start))
    for place, data in enumerate(events):
        actions += watch.feed(data, start + 0.02 * place)
        if watch.state is not State.OPEN:
            break
    return actions


def tick_until(watch: Monitor, end: float, *, start: float = 0.0) -> list[Action]:
    """Ticks as the process's ticker gives them: four a second."""
    return [a for n in range(1, round((end - start) * 4) + 1) for a in watch.tick(start + n / 4)]


def finish(watch: Monitor, events: list[bytes], ending: Ending = Ending.COMPLETE) -> list[Action]:
    actions = play(watch, events)
    if watch.state is State.OPEN:
        actions += watch.end(ending, 0.02 * len(events))
    return actions


# --- nothing wrong ---


@ALL
def test_a_clean_stream_reaches_the_client_byte_for_byte(policy: Policy) -> None:
    watch = monitor(policy)
    actions = finish(watch, CLEAN_STREAM)
    assert sent(actions) == b"".join(CLEAN_STREAM)
    assert isinstance(actions[-1], Finish)
    assert watch.outcome is Outcome.CLEAN


@ALL
def test_what_only_we_asked_for_is_cut_out(policy: Policy) -> None:
    asked = [event("a", 1, asked=True), event("b", 2, asked=True), event("", 2, finish="stop"), DONE]
    watch = monitor(policy, outgoing=ASKED)
    assert sent(finish(watch, asked)) == b"".join(asked).replace(b', "u": 1', b"")


@given(
    cuts=st.lists(st.integers(0, 400), max_size=12), policy=st.sampled_from(list(Policy)), asked=st.booleans()
)
def test_any_cut_of_the_same_bytes_delivers_the_same(cuts: list[int], policy: Policy, asked: bool) -> None:
    stream = [event(f"w{i}", i + 1, asked=asked) for i in range(8)] + [event("", 8, finish="stop"), DONE]
    wire = b"".join(stream)
    watch = monitor(policy, outgoing=ASKED if asked else PLAIN)
    pieces = [
        wire[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(wire)], strict=True) if wire[a:b]
    ]
    assert sent(finish(watch, pieces)) == wire.replace(b', "u": 1', b"")


@given(
    cuts=st.lists(st.integers(0, 900), max_size=12), policy=st.sampled_from([Policy.PROTECT, Policy.STRICT])
)
def test_any_cut_of_a_bad_stream_is_taken_back(cuts: list[int], policy: Policy) -> None:
    wire = b"".join([*CLEAN_STREAM[:5], event("BAD", 12), *CLEAN_STREAM[6:]])
    watch = monitor(policy)
    pieces = [
        wire[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(wire)], strict=True) if wire[a:b]
    ]
    assert sent(finish(watch, pieces)) == b""
    assert watch.state is State.TAKEN_BACK


def test_observe_hands_on_the_very_bytes_it_was_given() -> None:
    watch = monitor(Policy.OBSERVE)
    watch.head(200, WORKER, STREAMED, 0.0)
    data = event("a", 1)
    assert only(watch.feed(data, 0.0), Forward).data is data


# --- the commit point and the window ---


@BOTH
def test_nothing_goes_out_before_the_first_window_is_clean(policy: Policy) -> None:
    watch = monitor(policy, window_tokens=48)
    early = play(watch, CLEAN_STREAM[:20])  # 38 tokens
    assert sent(early) == b""
    assert not watch.committed


@BOTH
def test_what_is_older_than_the_window_goes_out(policy: Policy) -> None:
    watch = monitor(policy, window_tokens=20, first_tokens=0)
    actions = play(watch, CLEAN_STREAM[:40])
    assert sent(actions)
    assert watch.released
    newest = watch.generation.tokens
    assert watch._hold.released_tokens <= newest - 20


def test_a_window_in_seconds_runs_on_arrivals() -> None:
    watch = monitor(window_tokens=1000, window_s=1.0)
    watch.head(200, WORKER, STREAMED, 0.0)
    watch.feed(event("a", 1), 0.0)
    assert sent(watch.tick(1.5)) == b""  # silence alone releases nothing
    watch.feed(event("b", 2), 1.6)
    assert sent(watch.tick(1.7)) == event("a", 1)


def test_a_tool_call_goes_out_whole_or_not_at_all() -> None:
    watch = monitor(window_tokens=4, inspect_events=1)
    stream = [event("hi", 1), *(event("{", 10 * i, x=True) for i in range(1, 6))]
    assert sent(play(watch, stream)) == stream[0]
    rest = [event("", 60, finish="tool_calls"), DONE]
    actions = [a for data in rest for a in watch.feed(data, 1.0)] + list(watch.end(Ending.COMPLETE, 1.0))
    assert sent(actions) == b"".join([*stream[1:], *rest])


def test_heartbeats_keep_a_held_stream_alive_and_commit_it() -> None:
    watch = monitor(commit_wait_s=10, beat_every_s=5, window_s=100)
    watch.head(200, WORKER, STREAMED, 0.0)
    watch.feed(event("a", 1), 0.0)
    assert not watch.tick(1.0)
    watch.feed(event("b", 2), 9.5)
    assert only(watch.tick(10.0), Commit).data == b": beat\n\n"
    assert watch.committed
    assert not watch.released
    watch.feed(event("c", 3), 14.5)
    only(watch.tick(15.1), Commit)


def test_after_a_heartbeat_a_bad_stream_is_still_taken_back() -> None:
    watch = monitor(commit_wait_s=1, window_s=100)
    watch.head(200, WORKER, STREAMED, 0.0)
    watch.feed(event("a", 1), 0.9)
    assert watch.tick(1.2)
    watch.feed(event("BAD", 2), 1.3)
    assert only(watch.tick(1.5), Restart).reason == "verdict"


# --- taking back ---


@BOTH
def test_a_bad_generation_is_taken_back_unseen_and_made_again(policy: Policy) -> None:
    shared = desk()
    watch = monitor(policy, at=shared)
    first = play(watch, [*CLEAN_STREAM[:5], event("BAD", 12), *CLEAN_STREAM[6:12]])
    assert sent(first) == b""
    restart = only(first, Restart)
    assert restart.avoid == (WORKER.url,)
    watch.retry("s" * 32, PLAIN, 1.0)
    second = play(watch, CLEAN_STREAM, worker=OTHER, start=1.0) + list(watch.end(Ending.COMPLETE, 3.0))
    assert sent(second) == b"".join(CLEAN_STREAM)
    assert watch.outcome is Outcome.RECOVERED
    incident = only(second, Report).incident
    assert incident.judgement.kind is Kind.GARBLED
    assert [attempt.worker for attempt in incident.attempts] == [WORKER.url, OTHER.url]
    assert shared.counts["retries", "verdict", "restarted"] == 1
    assert shared.counts["streams", "default", policy, "recovered"] == 1
    assert shared.held_bytes == 0


def test_the_same_signature_twice_is_delivered_and_marked_on_protect() -> None:
    shared = desk()
    watch = monitor(Policy.PROTECT, at=shared)
    bad = [event("a", 1), event("BAD", 2), event("", 2, finish="stop"), DONE]
    assert finish(watch, bad)
    watch.retry("s" * 32, PLAIN, 1.0)
    actions = finish(watch, bad)
    assert sent(actions) == b"".join(bad)
    assert watch.outcome is Outcome.MARKED
    assert shared.counts["escaped", "garbled"] == 1


def test_the_same_signature_twice_fails_loudly_on_strict() -> None:
    watch = monitor(Policy.STRICT)
    bad = [event("a", 1), event("BAD", 2), event("", 2, finish="stop"), DONE]
    finish(watch, bad)
    watch.retry("s" * 32, PLAIN, 1.0)
    actions = finish(watch, bad)
    assert sent(actions) == b""
    assert only(actions, Fail).status == 502
    assert watch.outcome is Outcome.FAILED


def test_the_last_generation_fails_for_real_before_the_commit_point() -> None:
    watch = monitor(Policy.PROTECT, max_generations=1)
    fail = only(finish(watch, [event("BAD", 2), event("", 3, finish="stop"), DONE]), Fail)
    assert (fail.status, fail.guilty, fail.reason) == (502, Guilty.ENGINE, "corrupted_garbled")


@BOTH
def test_an_empty_budget_stops_retries(policy: Policy) -> None:
    shared = desk()
    while shared.budget.take(0.0):
        pass
    watch = monitor(policy, at=shared)
    actions = finish(watch, [event("a", 1), event("BAD", 2), event("", 2, finish="stop"), DONE])
    assert not any(isinstance(action, Restart) for action in actions)
    assert watch.outcome is (Outcome.MARKED if policy is Policy.PROTECT else Outcome.FAILED)


@BOTH
def test_after_release_a_bad_tail_is_dropped_and_fails_in_band(policy: Policy) -> None:
    watch = monitor(policy, window_tokens=10, inspect_events=2, first_tokens=0)
    actions = play(watch, [*CLEAN_STREAM[:30], event("BAD", 60), event("more", 62), event("more", 64)])
    assert b"BAD" not in sent(actions)
    assert only(actions, Fail).in_band == b"data: error corrupted_garbled\n\n"
    assert watch.outcome is Outcome.FAILED
    assert not any(isinstance(action, Finish) for action in actions)


def test_observe_looks_at_many_events_together_and_at_the_rest_on_the_tick() -> None:
    watch = monitor(Policy.OBSERVE)
    watch.head(200, WORKER, STREAMED, 0.0)
    batch = RoutePolicy().look_events
    assert batch < 50
    for place in range(50):
        watch.feed(event("word ", place + 1), 0.005 * place)
    assert (watch.generation.events_seen, len(watch.generation.pending)) == (batch, 50 - batch)
    assert watch.drains(0.25, client_gone=True) is False
    watch.tick(0.25)
    assert (watch.generation.events_seen, len(watch.generation.pending)) == (50, 0)


def test_a_comment_alone_is_no_first_item() -> None:
    watch = monitor(Policy.OBSERVE)
    watch.head(200, WORKER, STREAMED, 0.0)
    watch.feed(b": ping\n\n", 0.1)
    assert watch.drains(0.2, client_gone=True)


def test_observe_keeps_no_more_of_long_events_than_a_stream_may_hold() -> None:
    watch = monitor(Policy.OBSERVE)
    watch.head(200, WORKER, STREAMED, 0.0)
    limit = RoutePolicy().stream_bytes
    for place in range(20):
        watch.feed(event("word " * (limit // 20), place + 1), 0.02 * place)
        assert watch.generation.pending_bytes <= limit
    assert watch.generation.events_seen >= 15


def test_observe_never_touches_a_bad_stream_but_says_what_it_saw() -> None:
    shared = desk()
    watch = monitor(Policy.OBSERVE, at=shared)
    bad = [event("a", 1), event("BAD", 2), event("", 4, finish="stop"), DONE]
    actions = finish(watch, bad)
    assert sent(actions) == b"".join(bad)
    assert watch.outcome is Outcome.MARKED
    assert only(actions, Report).incident.delivered_bad_tokens > 0
    assert shared.counts["verdicts", "garbled", "text"] == 1


@BOTH
def test_silence_takes_a_stream_back(policy: Policy) -> None:
    watch = monitor(policy)
    play(watch, CLEAN_STREAM[:4])
    assert not tick_until(watch, 1.5)
    only(tick_until(watch, 2.5, start=1.5), Restart)
    watch.retry("s" * 32, PLAIN, 2.5)
    assert watch.state is State.WAITING


def test_our_own_backpressure_is_not_silence() -> None:
    watch = monitor(Policy.OBSERVE)
    play(watch, CLEAN_STREAM[:4])
    watch.paused(0.3)
    tick_until(watch, 9.5)
    watch.resumed(9.5)
    tick_until(watch, 10.5, start=9.5)
    assert watch.judgement.level is Level.CLEAN
    tick_until(watch, 13.0, start=10.5)
    assert watch.judgement.kind is Kind.SILENT


def test_the_longest_silence_towards_a_client_is_told_at_the_end() -> None:
    shared = desk()
    watch = monitor(Policy.OBSERVE, at=shared)
    watch.head(200, WORKER, STREAMED, 0.0)
    tick_until(watch, 3.0)  # before the first byte: the time to the first token, no silence
    watch.feed(event("a", 1), 3.0)
    tick_until(watch, 4.0, start=3.0)
    watch.feed(event("b", 2), 4.1)
    tick_until(watch, 4.6, start=4.1)
    watch.gone(4.7)
    assert shared.samples["client_silence_seconds"] == [1.0]


def test_bytes_that_are_held_are_silence_to_a_client() -> None:
    shared = desk()
    watch = monitor(Policy.PROTECT, at=shared)
    play(watch, CLEAN_STREAM)
    assert watch.released
    tick_until(watch, 1.5, start=0.8)
    watch.gone(1.5)
    assert 0.5 < shared.samples["client_silence_seconds"][0] < 1.5


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.PROTECT])
def test_a_client_that_does_not_read_is_not_left_in_silence(policy: Policy) -> None:
    shared = desk()
    watch = monitor(policy, at=shared)
    play(watch, CLEAN_STREAM)
    watch.paused(0.8)
    tick_until(watch, 9.5, start=0.8)
    watch.resumed(9.5)
    tick_until(watch, 9.75, start=9.5)
    watch.gone(9.75)
    assert shared.samples["client_silence_seconds"][0] < 1.1


def test_our_own_stall_is_not_the_engines_silence() -> None:
    watch = monitor(Policy.OBSERVE)
    play(watch, CLEAN_STREAM[:4])
    tick_until(watch, 1.0)
    watch.tick(9.0)  # the loop stood still; the engine's bytes wait in the socket
    assert watch.judgement.level is Level.CLEAN
    tick_until(watch, 13.0, start=9.0)
    assert watch.judgement.kind is Kind.SILENT


def test_comments_are_no_sign_of_life() -> None:
    watch = monitor(Policy.OBSERVE)
    watch.head(200, WORKER, STREAMED, 0.0)
    watch.feed(event("a", 1), 0.0)
    for second in range(1, 6):
        watch.feed(b": ping\n\n", float(second))
        tick_until(watch, second + 1.0, start=float(second))
    assert watch.judgement.kind is Kind.SILENT


# --- suspicion ---


@BOTH
def test_suspicion_holds_longer_but_never_takes_a_running_stream_back(policy: Policy) -> None:
    watch = monitor(policy, window_tokens=4, suspect_hold_s=0.5)
    actions = play(watch, [event("LOW", 1), *CLEAN_STREAM[1:20]])
    assert sent(actions) == b""
    assert watch.judgement.level is Level.SUSPECT
    later = watch.feed(event("x", 60), 5.0) or watch.tick(5.1)
    assert sent(later)


@BOTH
def test_a_strong_suspicion_at_the_end_buys_one_second_opinion(policy: Policy) -> None:
    shared = desk(mode=AbortMode.DRAIN)
    watch = monitor(policy, at=shared)
    low = [event("LOW", 1), event("", 2, finish="stop"), DONE]
    restart = only(finish(watch, low), Restart)
    assert (restart.reason, restart.drain) == ("second_opinion", False)  # it has ended: nothing to drain
    watch.retry("s" * 32, PLAIN, 1.0)
    actions = finish(watch, CLEAN_STREAM)
    assert sent(actions) == b"".join(CLEAN_STREAM)
    assert watch.outcome is Outcome.RECOVERED


@BOTH
def test_a_second_suspicion_is_the_prompts_doing_and_delivered(policy: Policy) -> None:
    watch = monitor(policy)
    low = [event("LOW", 1), event("", 2, finish="stop"), DONE]
    finish(watch, low)
    watch.retry("s" * 32, PLAIN, 1.0)
    assert sent(finish(watch, low)) == b"".join(low)


# --- ends ---


@ALL
def test_done_without_a_finish_reason_is_no_success(policy: Policy) -> None:
    watch = monitor(policy, max_generations=1)
    actions = finish(watch, [event("a", 1), DONE])
    if policy is Policy.OBSERVE:
        assert watch.outcome is Outcome.MARKED
        assert sent(actions) == event("a", 1) + DONE
    else:
        assert only(actions, Fail).reason == "corrupted_truncated"
    assert watch.judgement.kind is Kind.TRUNCATED


@ALL
def test_a_broken_upstream_never_looks_like_a_clean_end(policy: Policy) -> None:
    watch = monitor(policy, max_generations=1)
    actions = finish(watch, CLEAN_STREAM[:5], Ending.BROKEN)
    assert only(actions, Fail).guilty is Guilty.ENGINE
    assert not any(isinstance(action, Finish) for action in actions)
    assert watch.outcome is Outcome.UPSTREAM_ERROR


def test_a_broken_upstream_before_release_is_tried_again_on_protect() -> None:
    watch = monitor(Policy.PROTECT)
    assert only(finish(watch, CLEAN_STREAM[:5], Ending.BROKEN), Restart).reason == "broken_stream"


@ALL
def test_a_router_that_is_down_is_a_503_with_retry_after(policy: Policy) -> None:
    watch = monitor(policy)
    fail = only(watch.end(Ending.REFUSED, 0.1), Fail)
    assert (fail.status, fail.guilty, fail.retry_after_s) == (503, Guilty.ROUTER, 1)


def test_an_engine_error_status_is_tried_again_on_protect_and_passed_on_in_observe() -> None:
    assert only(monitor(Policy.PROTECT).head(500, WORKER, WHOLE_BODY, 0.1), Restart).reason == "status_500"
    watch = monitor(Policy.OBSERVE)
    assert not watch.head(500, WORKER, WHOLE_BODY, 0.1)
    assert sent(watch.feed(b"oops", 0.2)) == b"oops"
    assert isinstance(watch.end(Ending.COMPLETE, 0.3)[0], Finish)
    assert watch.outcome is Outcome.UPSTREAM_ERROR


@ALL
def test_a_client_error_is_passed_on_untouched(policy: Policy) -> None:
    watch = monitor(policy)
    assert not watch.head(400, WORKER, WHOLE_BODY, 0.1)
    assert sent(watch.feed(b"your fault", 0.2)) == b"your fault"
    assert isinstance(watch.end(Ending.COMPLETE, 0.3)[0], Finish)


def test_an_in_band_engine_error_is_tried_again_while_nothing_is_out() -> None:
    watch = monitor(Policy.PROTECT)
    assert (
        only(finish(watch, [event("a", 1), event("", 1, e="INTERNAL"), DONE]), Restart).reason
        == "engine_error"
    )


def test_bytes_after_the_last_whole_event_still_go_out() -> None:
    watch = monitor(Policy.PROTECT)
    torn = b'data: {"t": "unfinished'
    stream = [event("a", 1), event("", 1, finish="stop"), torn]
    assert sent(finish(watch, stream)) == b"".join(stream)


@ALL
def test_a_malformed_event_goes_out_and_is_counted(policy: Policy) -> None:
    shared = desk()
    watch = monitor(policy, at=shared)
    stream = [event("a", 1), b"data: {broken\n\n", event("", 1, finish="stop"), DONE]
    assert sent(finish(watch, stream)) == b"".join(stream)
    assert shared.counts["malformed_events",] == 1


# --- responses that are not streamed ---

WHOLE = RequestFacts("toy", stream=False)


def whole(watch: Monitor, body: bytes) -> list[Action]:
    watch.head(200, WORKER, WHOLE_BODY, 0.0)
    half = len(body) // 2
    fed = [*watch.feed(body[:half], 0.1), *watch.feed(body[half:], 0.2)]
    return fed if watch.state is State.DONE else [*fed, *watch.end(Ending.COMPLETE, 0.3)]


@ALL
def test_a_whole_response_is_judged_whole(policy: Policy) -> None:
    watch = monitor(policy, facts=WHOLE)
    body = b'{"t": "fine", "n": 3, "f": "stop"}'
    assert sent(whole(watch, body)) == body
    bad = monitor(policy, facts=WHOLE)
    actions = whole(bad, b'{"t": "BAD", "n": 3, "f": "stop"}')
    assert (sent(actions) == b"") is (policy is not Policy.OBSERVE)
    assert bad.judgement.kind is Kind.GARBLED


@pytest.mark.parametrize(("policy", "kept"), [(Policy.PROTECT, True), (Policy.STRICT, False)])
def test_a_whole_response_past_the_cap_flows_on_protect_and_is_refused_on_strict(
    policy: Policy,
    kept: bool,
) -> None:
    shared = desk()
    watch = monitor(policy, facts=WHOLE, whole_bytes=8, at=shared)
    body = b'{"t": "fine", "n": 3, "f": "stop"}'
    actions = whole(watch, body)
    assert (sent(actions) == body) is kept
    assert any(isinstance(action, Fail) for action in actions) is not kept
    assert shared.counts.get(("uninspected", "too_large"), 0) == kept
    assert shared.held_bytes == 0


def test_a_whole_response_that_cannot_be_read_is_not_delivered_on_strict_alone() -> None:
    strict = monitor(Policy.STRICT, facts=WHOLE)
    assert only(whole(strict, b"{not json"), Restart).reason == "unreadable"
    strict.retry("s" * 32, PLAIN, 1.0)
    whole(strict, b"{not json")
    strict.retry("t" * 32, PLAIN, 2.0)
    assert only(whole(strict, b"{not json"), Fail).reason == "unreadable_response"
    assert sent(whole(monitor(Policy.PROTECT, facts=WHOLE), b"{not json")) == b"{not json"


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.PROTECT])
def test_what_is_sealed_to_us_goes_through_unread_and_is_counted(policy: Policy) -> None:
    shared = desk()
    watch = monitor(policy, at=shared)
    watch.encoded(200, WORKER, 0.0)
    actions = [*watch.feed(b"\x1f\x8b\x08BAD", 0.1), *watch.tick(5.0), *watch.end(Ending.COMPLETE, 5.1)]
    assert sent(actions) == b"\x1f\x8b\x08BAD"
    assert isinstance(actions[-1], Finish)
    assert watch.outcome is Outcome.UNINSPECTED
    assert shared.counts["uninspected", "encoding"] == 1
    assert shared.counts["streams", "default", policy, "uninspected"] == 1
    assert not any(key[0] in {"verdicts", "suspects"} for key in shared.counts)


def test_what_is_sealed_to_us_is_not_delivered_on_strict() -> None:
    watch = monitor(Policy.STRICT)
    assert only(watch.encoded(200, WORKER, 0.0), Restart).reason == "unreadable"
    watch.retry("s" * 32, PLAIN, 1.0)
    watch.encoded(200, WORKER, 1.0)
    watch.retry("t" * 32, PLAIN, 2.0)
    assert only(watch.encoded(200, WORKER, 2.0), Fail).reason == "unreadable_response"


# --- bounds, and the ways out ---


@pytest.mark.parametrize(("policy", "kept"), [(Policy.PROTECT, True), (Policy.STRICT, False)])
def test_more_than_may_be_held_flows_on_protect_and_is_refused_on_strict(policy: Policy, kept: bool) -> None:
    shared = desk()
    watch = monitor(policy, at=shared, stream_bytes=300, window_tokens=10_000)
    actions = play(watch, CLEAN_STREAM[:30])
    assert bool(sent(actions)) is kept
    assert any(isinstance(action, Fail) and action.status == 503 for action in actions) is not kept
    assert shared.counts["hold_overflow", policy] >= 1


def test_all_streams_together_stay_within_the_account() -> None:
    shared = desk(held_max=200)
    watches = [monitor(at=shared, window_tokens=10_000) for _ in range(4)]
    for watch in watches:
        play(watch, CLEAN_STREAM[:20])
    assert shared.held_bytes <= 200 + max(len(data) for data in CLEAN_STREAM) * 8 * len(watches)
    assert shared.counts["hold_overflow", "protect"] >= 1
    for watch in watches:
        watch.gone(9.0)
    assert shared.held_bytes == 0


@pytest.mark.parametrize("stage", ["waiting", "holding", "taken_back", "releasing"])
def test_a_client_that_goes_gives_everything_back(stage: str) -> None:
    shared = desk()
    watch = monitor(at=shared, window_tokens=10)
    if stage == "holding":
        play(watch, CLEAN_STREAM[:3])
    elif stage == "releasing":
        play(watch, CLEAN_STREAM[:30])
    elif stage == "taken_back":
        play(watch, [event("BAD", 1)])
    watch.gone(2.0)
    assert watch.outcome is Outcome.CLIENT_GONE
    assert shared.held_bytes == 0
    assert shared.counts["streams", "default", "protect", "client_gone"] == 1
    assert not watch.gone(3.0)
    assert not watch.end(Ending.BROKEN, 3.0)
    if stage == "taken_back":
        assert shared.counts["verdicts", "garbled", "text"] == 1  # the attempt is counted once


def test_a_detector_that_raises_is_switched_off_and_the_stream_goes_on() -> None:
    class Raises:
        name = "raises"
        channel = desk().detectors[0].channel

        def start(self, facts: object, worker: object) -> None:
            return None

        def look(self, state: object, look: object) -> None:
            raise RuntimeError("a bug")

    shared = Desk((Raises(), *desk().detectors), desk().fusion)
    watch = monitor(Policy.PROTECT, at=shared)
    assert sent(finish(watch, CLEAN_STREAM)) == b"".join(CLEAN_STREAM)
    assert shared.counts["detector_faults", "raises"] == 1


@pytest.mark.parametrize("mode", list(AbortMode))
def test_a_taken_back_stream_is_closed_only_when_the_governor_lets(mode: AbortMode) -> None:
    watch = monitor(at=desk(mode=mode))
    restart = only(play(watch, [event("a", 1), event("BAD", 2), *CLEAN_STREAM[2:10]]), Restart)
    assert restart.drain is (mode is AbortMode.DRAIN)


def test_the_proxy_can_refuse_at_shutdown() -> None:
    watch = monitor()
    fail = only(watch.refuse(503, Guilty.OURS, "shutting_down", "this replica is going away", 0.1), Fail)
    assert fail.retry_after_s == 1
    assert not watch.refuse(503, Guilty.OURS, "shutting_down", "again", 0.2)


def test_no_text_shows_in_what_is_printed_of_a_stream() -> None:
    watch = monitor()
    play(watch, [event("Jane Doe 12345678", 1), event("BAD", 2)])
    assert "Jane" not in repr(watch) + repr(watch.generation) + repr(watch.record) + repr(watch._desk)


# --- strict begins late ---

LATE = [*CLEAN_STREAM[:35], *(event("BAD", tokens) for tokens in range(70, 90))]
"""Bad after more than a window of clean tokens."""


def test_strict_takes_back_what_protect_has_begun_to_deliver() -> None:
    strict, protect = monitor(Policy.STRICT), monitor(Policy.PROTECT)
    assert only(play(strict, LATE), Restart).reason == "verdict"
    assert only(play(protect, LATE), Fail).reason == "corrupted_garbled"


@pytest.mark.parametrize(
    "watch",
    [
        monitor(Policy.STRICT, first_tokens=50, window_tokens=10),
        monitor(Policy.STRICT, first_s=0.5, window_tokens=10),
    ],
    ids=["tokens", "seconds"],
)
def test_strict_begins_after_so_many_tokens_or_seconds(watch: Monitor) -> None:
    watch.head(200, WORKER, STREAMED, 0.0)
    begun = [bool(sent(watch.feed(data, 0.02 * place))) for place, data in enumerate(CLEAN_STREAM)]
    assert 25 <= begun.index(True) <= 25 + 8  # at the first look after the 26th event: 50 tokens, 0.5 s


def test_a_short_answer_waits_for_its_end_on_strict() -> None:
    watch = monitor(Policy.STRICT)
    actions = play(watch, CLEAN_STREAM)
    assert sent(actions) == b""
    assert sent(watch.end(Ending.COMPLETE, 1.0)) == b"".join(CLEAN_STREAM)


@pytest.mark.parametrize("policy", Policy)
def test_only_observed_streams_do_without_what_is_kept_to_records(policy: Policy) -> None:
    whole = desk()
    shared = Desk(whole.detectors, whole.fusion, offline={whole.detectors[0].name})
    watch = monitor(policy, at=shared)
    watch.head(200, WORKER, STREAMED, 0.0)
    watch.feed(event("BAD", 1), 0.1)
    watch.feed(DONE, 0.2)
    watch.end(Ending.COMPLETE, 0.3)
    judged = watch.record.attempts[-1].judgement if watch.record.attempts else watch.judgement
    assert (judged.detector == "text") is (policy is not Policy.OBSERVE)
