import pytest

from service.core.endings import ENGINE_NAN
from service.core.events import Delta, Drafter, Judgement, Kind, Level, Outcome, Policy, RequestFacts
from service.core.generation import Generation
from service.core.groundtruth import Word
from service.core.loglines import LogKind
from service.core.policy import RoutePolicy
from service.core.record import Record
from service.core.vocabulary import Vocabulary
from tests.service.core.toy import PLAIN, WORKER, ToyDialect, desk

BAD = Judgement(Level.CORRUPT, Kind.REPETITION, "loop", 7.0, 90, 40, "u1")


def generation(judgement: Judgement | None = None, tokens: int = 100) -> Generation:
    made = Generation("r", RequestFacts("toy"), ToyDialect(), PLAIN, 0.0)
    made.open(200, WORKER, streamed=True, desk=desk(), now=0.0)
    made.tokens = tokens
    if judgement:
        made.judgement = judgement
    return made


def record() -> Record:
    return Record("r", RequestFacts("toy", model="m"), RoutePolicy(), desk(), 0.0)


def test_a_clean_request_leaves_no_incident() -> None:
    kept = record()
    assert kept.close(Outcome.CLEAN, generation(), 100, 1.0) is None
    assert kept._desk.counts["tokens", "delivered"] == 100


def test_an_incident_tells_the_worst_judgement_and_every_attempt() -> None:
    kept = record()
    kept.again(generation(BAD))
    incident = kept.close(Outcome.RECOVERED, generation(), 100, 2.5)
    assert incident is not None
    assert (incident.judgement, incident.duration_s, len(incident.attempts)) == (BAD, 2.5, 2)
    assert kept.signatures == {BAD.signature: 1}
    assert kept.workers == (WORKER.url, WORKER.url)
    assert kept._desk.counts["tokens", "discarded"] == 100


def test_a_generation_is_counted_once() -> None:
    kept, bad = record(), generation(BAD)
    kept.again(bad)
    kept.close(Outcome.CLIENT_GONE, bad, 0, 1.0)
    assert kept._desk.counts["verdicts", "repetition", "loop"] == 1
    assert len(kept.attempts) == 1


@pytest.mark.parametrize(("policy", "counted"), [(Policy.OBSERVE, 1), (Policy.PROTECT, 0)])
def test_observe_counts_what_protect_would_have_taken_back(policy: Policy, counted: int) -> None:
    kept = Record("r", RequestFacts("toy"), RoutePolicy(policy=policy), desk(), 0.0)
    kept.close(Outcome.MARKED, generation(BAD), 100, 1.0)
    assert kept._desk.counts.get(("would_abort", "repetition"), 0) == counted


def test_bad_tokens_are_those_delivered_past_the_onset() -> None:
    kept = record()
    kept.bad_from = 40
    incident = kept.close(Outcome.FAILED, generation(BAD), 64, 1.0)
    assert incident is not None
    assert incident.delivered_bad_tokens == 24
    assert kept._desk.counts["late_detections", "repetition"] == 1


def test_what_the_engine_said_of_a_generation_stands_in_its_record() -> None:
    kept = record()
    kept._desk.ground.hear(Word(LogKind.CHECKSUM_MISMATCH, 0.0, rid="r"))
    kept._desk.ground.hear(Word(LogKind.CANARY_VIOLATION, 0.0, WORKER.url))
    kept._desk.ground.hear(Word(LogKind.NAN, 0.0, "http://another"))
    kept.close(Outcome.CLEAN, generation(), 100, 1.0)
    assert kept.attempts[0].engine_said == ("checksum_mismatch", "worker:canary_violation")


def test_a_stop_on_nan_is_a_word_of_the_engine() -> None:
    kept = record()
    kept.again(generation(Judgement(Level.CORRUPT, Kind.GARBLED, ENGINE_NAN, 9.0)))
    assert kept._desk.ground.counts == {("nan", WORKER.url): 1}
    assert kept.attempts[0].engine_said == ("nan",)


def test_the_estimate_is_reconciled_with_the_engines_own_totals() -> None:
    kept, made = record(), generation()
    made._note([Delta(tokens=1), Delta(tokens=4), Delta(tokens=5), Delta(accepted=3, steps=4)], 0.0)
    kept.close(Outcome.CLEAN, made, 100, 1.0)
    assert kept._desk.samples["acceptance_error:upper"] == [1.0 - 0.75]
    assert kept._desk.counts["telemetry_streams", "upper"] == 1
    assert kept._desk.coverage.sources == {WORKER.url: "upper"}


def refused_everywhere(text: str) -> Record:
    """Sixty streams of one worker, all their drafts refused, which say this."""
    shared = desk()
    shared.fleet.know(WORKER.url, Drafter.MODEL, 4)
    for _ in range(60):
        kept = Record("r", RequestFacts("toy", model="m"), RoutePolicy(), shared, 0.0)
        made = generation()
        made._note([Delta(text=text, tokens=20), Delta(tokens=20, accepted=2, steps=20)], 0.0)
        kept.close(Outcome.CLEAN, made, 20, 1.0)
    return kept


def test_where_every_stream_is_refused_and_reads_well_the_draft_is_blamed_once() -> None:
    kept = refused_everywhere("LOW")
    assert kept._desk.counts["draft_faults", WORKER.url] == 1
    assert kept._desk.fleet.worker(WORKER.url).draft_fault


def test_where_the_text_is_bad_as_well_nobody_blames_the_draft() -> None:
    assert ("draft_faults", WORKER.url) not in refused_everywhere("LOW and BAD")._desk.counts


@pytest.mark.parametrize(("judgement", "learnt"), [(None, True), (BAD, False)])
def test_only_a_clean_answer_teaches_its_token_ids(judgement: Judgement | None, learnt: bool) -> None:
    known = Vocabulary()
    kept = Record("r", RequestFacts("toy", vocabulary=known), RoutePolicy(), desk(), 0.0)
    said = generation(judgement)
    assert said.inspector is not None
    said.inspector.read([Delta(text="a", tokens=2, ids=(3, 5))], 0.0)
    kept.close(Outcome.CLEAN if judgement is None else Outcome.MARKED, said, 2, 1.0)
    assert [known.holds(token) for token in (3, 4, 5)] == [learnt, False, learnt]
