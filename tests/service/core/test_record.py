from service.core.events import Judgement, Kind, Level, Outcome, RequestFacts
from service.core.generation import Generation
from service.core.policy import RoutePolicy
from service.core.record import Record
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


def test_bad_tokens_are_those_delivered_past_the_onset() -> None:
    kept = record()
    kept.bad_from = 40
    incident = kept.close(Outcome.FAILED, generation(BAD), 64, 1.0)
    assert incident is not None
    assert incident.delivered_bad_tokens == 24
    assert kept._desk.counts["late_detections", "repetition"] == 1
