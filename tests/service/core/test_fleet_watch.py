"""One view of the fleet: who is suspect, why, and who merely has nothing against them."""

from collections.abc import Mapping

import msgspec

from service.core.events import (
    CLEAN,
    Attempt,
    Cached,
    Drafter,
    Judgement,
    Kind,
    Level,
    RequestFacts,
    WorkerFacts,
)
from service.core.fleet_watch import LOOK_S, STUCK_S, TROUBLE_S, FleetView, FleetWatch, Gauge, Reason

ASKED = RequestFacts("openai_chat", "m")
BAD = Judgement(Level.CORRUPT, Kind.GARBLED, "garble", 9.0)
WORKERS = tuple(WorkerFacts(url, Drafter.MODEL, 4) for url in ("d1", "d2", "d3"))


class Shift:
    """A fleet at work, fifteen seconds at a time."""

    def __init__(self) -> None:
        self.watch = FleetWatch()
        self.now = 0.0
        self.said: dict[tuple[str, str], int] = {}

    def pass_by(self, times: int, lengths: Mapping[str, float], **more: float) -> FleetView:
        for _ in range(times):
            self.now += LOOK_S
            for url, length in lengths.items():
                gauge = Gauge(url, self.now, "m", length, fresh=True, running=more.get("running", 1.0))
                self.watch.scraped(gauge)
            view = self.watch.look(self.now, WORKERS, self.said)
            assert view is not None
        return self.watch.view

    def suspects(self) -> dict[str, tuple[Reason, ...]]:
        return {one.url: one.suspect for one in self.watch.view.workers if one.suspect}


def test_a_worker_whose_acceptance_collapses_alone_is_suspect() -> None:
    shift = Shift()
    shift.pass_by(40, {"d1": 4.487, "d2": 4.4, "d3": 4.3})
    assert shift.suspects() == {}
    view = shift.pass_by(10, {"d1": 1.589, "d2": 4.4, "d3": 4.3})
    assert shift.suspects() == {"d1": (Reason.ACCEPTANCE,)}
    assert view.fallen_models == ()


def test_a_fall_of_all_is_the_models() -> None:
    shift = Shift()
    shift.pass_by(40, dict.fromkeys(("d1", "d2", "d3"), 4.0))
    view = shift.pass_by(10, dict.fromkeys(("d1", "d2", "d3"), 1.3))
    assert (view.fallen_models, shift.suspects()) == (("m",), {})


def test_streams_alone_tell_it_where_no_worker_can_be_scraped() -> None:
    shift = Shift()
    for length, times in ((3.0, 40), (1.2, 12)):
        for _ in range(times):
            shift.now += LOOK_S
            for url in ("d1", "d2", "d3"):
                mine = length if url == "d1" else 3.0
                shift.watch.over(
                    Attempt("r", url, 200, steps=250, accept_length=mine), ASKED, "default", shift.now
                )
            shift.watch.look(shift.now, WORKERS, {})
    assert shift.suspects() == {"d1": (Reason.ACCEPTANCE,)}


def test_a_worker_with_more_bad_answers_than_its_peers_is_suspect() -> None:
    shift = Shift()
    for number in range(300):
        for url in ("d1", "d2", "d3"):
            judgement = BAD if url == "d2" and number < 15 else CLEAN
            shift.watch.over(Attempt("r", url, 200, judgement), ASKED, "default", 1.0)
    shift.pass_by(1, {})
    assert shift.suspects() == {"d2": (Reason.CORRUPTION,)}
    assert {rate.value for rate in shift.watch.view.suspect_groups()} == {"d2"}


def test_what_an_engine_says_of_itself_is_a_reason() -> None:
    shift = Shift()
    shift.said = {("canary_violation", "d3"): 2, ("nan", "elsewhere"): 1}
    view = shift.pass_by(1, {})
    assert shift.suspects() == {"d3": (Reason.ENGINE,)}
    worker = view.worker("d3")
    assert worker is not None
    assert worker.engine_said == {"canary_violation": 2}


def test_requests_that_run_without_a_token_are_a_reason() -> None:
    shift = Shift()
    shift.pass_by(1, {"d1": 3.0, "d2": 3.0})
    for _ in range(int(STUCK_S / LOOK_S) + 1):
        shift.now += LOOK_S
        shift.watch.scraped(Gauge("d1", shift.now, "m", 3.0, running=16.0))
        shift.watch.scraped(Gauge("d2", shift.now, "m", 3.0, running=0.0))
        shift.watch.look(shift.now, WORKERS, {})
    assert shift.suspects() == {"d1": (Reason.NO_PROGRESS,)}
    shift.pass_by(1, {"d1": 3.0})
    assert shift.suspects() == {}


def test_a_worker_that_is_no_longer_scraped_is_not_stuck() -> None:
    shift = Shift()
    shift.watch.scraped(Gauge("d1", 0.0, "m", 3.0, running=16.0))
    shift.pass_by(20, {})
    assert shift.suspects() == {}


def test_a_stale_gauge_is_no_sample() -> None:
    shift = Shift()
    for _ in range(5):
        shift.watch.scraped(Gauge("d1", shift.now, "m", 3.0, fresh=False, running=0.0))
    view = shift.pass_by(1, {})
    assert all(not worker.acceptance for worker in view.workers)


def test_a_quiet_fault_leaves_no_reason_and_no_word_of_health() -> None:
    """KV of another request, valid as it is: acceptance as ever, nobody's check speaks."""
    shift = Shift()
    shift.pass_by(60, dict.fromkeys(("d1", "d2", "d3"), 3.14))
    assert shift.suspects() == {}
    told = msgspec.json.encode(shift.watch.view)
    assert b"no_evidence" in told
    assert b"health" not in told


def test_counters_of_trouble_are_summed_for_ten_minutes() -> None:
    shift = Shift()
    for at in (0.0, 10.0):
        shift.watch.scraped(Gauge("d1", at, moved={"load_back_tokens_total": 64.0}))
    assert shift.watch.trouble(20.0) == {"d1": {"load_back_tokens_total": 128.0}}
    assert shift.watch.trouble(TROUBLE_S + 5.0) == {"d1": {"load_back_tokens_total": 64.0}}
    assert shift.watch.trouble(TROUBLE_S + 15.0) == {}


def test_a_look_comes_when_it_is_time() -> None:
    watch = FleetWatch()
    assert watch.look(0.0, WORKERS, {}) is not None
    assert watch.look(LOOK_S - 0.1, WORKERS, {}) is None
    assert watch.look(LOOK_S, WORKERS, {}) is not None


def test_workers_that_are_gone_are_forgotten_and_an_absent_list_forgets_nobody() -> None:
    shift = Shift()
    shift.pass_by(2, {"d1": 3.0, "d9": 3.0})
    assert shift.watch.view.worker("d9") is None
    shift.now += LOOK_S
    view = shift.watch.look(shift.now, (), {})
    assert view is not None
    assert view.worker("d1") is not None


def test_a_worker_can_be_learned_anew() -> None:
    shift = Shift()
    shift.pass_by(40, {"d1": 4.0})
    shift.pass_by(10, {"d1": 1.5})
    assert shift.watch.relearn("d1")
    shift.pass_by(40, {"d1": 1.5})
    assert shift.suspects() == {}
    assert not shift.watch.relearn("nobody")


def test_a_clean_turn_is_passed_on_to_the_cache_watch_and_a_bad_one_is_not() -> None:
    watch = FleetWatch()
    asked = RequestFacts(
        "openai_chat", "m", prompt="x" * 10_000, session="s", preamble_chars=5, tools_chars=7
    )
    watch.over(Attempt("r", "d1", 200, BAD), asked, "default", 1.0)
    watch.over(Attempt("r", "d2", 200, cached=Cached(2_500, 2_000)), asked, "default", 2.0)
    (turn,) = watch.turns.take()
    assert (turn.worker, turn.session, turn.preamble_chars, turn.tools_chars) == ("d2", "s", 5, 7)
    assert (turn.cached.tokens, turn.at) == (2_000, 2.0)


def test_a_prefill_worker_that_waits_for_decode_is_not_stuck() -> None:
    shift = Shift()
    for _ in range(20):
        shift.now += LOOK_S
        shift.watch.scraped(Gauge("d1", shift.now, running=9.0, decodes=False))
        shift.watch.look(shift.now, WORKERS, {}, ["d1"])
    assert shift.suspects() == {}
    assert shift.watch.view.prefills == ("d1",)


def test_a_worker_that_tells_its_load_alone_has_no_counters_that_stood_still() -> None:
    shift = Shift()
    shift.watch.scraped(Gauge("d1", 0.0, running=3.0, counted=False))
    shift.watch.scraped(Gauge("d2", 0.0, running=3.0))
    view = shift.pass_by(1, {})
    assert {worker.url: worker.scraped for worker in view.workers} == {"d1": False, "d2": True, "d3": False}
