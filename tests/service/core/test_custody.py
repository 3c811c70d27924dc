from service.core.custody import State
from service.core.events import Ending, Outcome, Policy, RequestFacts
from tests.service.core.toy import DONE, PLAIN, WORKER, desk, event, monitor, sent


def test_a_request_goes_through_its_states_in_order() -> None:
    watch = monitor()
    states = [watch.state]
    watch.head(200, WORKER, streamed=True, now=0.0)
    states.append(watch.state)
    watch.feed(event("BAD", 1), 0.1)
    states.append(watch.state)
    watch.retry("s" * 32, PLAIN, 0.2)
    states.append(watch.state)
    watch.end(Ending.REFUSED, 0.3)
    states.append(watch.state)
    assert states == [State.WAITING, State.OPEN, State.TAKEN_BACK, State.WAITING, State.DONE]


def test_a_taken_back_generation_leaves_nothing_in_custody() -> None:
    shared = desk()
    watch = monitor(at=shared)
    watch.head(200, WORKER, streamed=True, now=0.0)
    watch.feed(event("fine", 1), 0.0)
    assert watch.held_bytes == shared.held_bytes > 0
    watch.feed(event("BAD", 2), 0.1)
    watch.tick(0.2)
    assert (watch.held_bytes, shared.held_bytes, watch.released) == (0, 0, False)


def test_a_waived_verdict_lets_the_rest_flow_as_it_comes() -> None:
    shared = desk()
    while shared.budget.take(0.0):
        pass
    watch = monitor(Policy.PROTECT, at=shared)
    watch.head(200, WORKER, streamed=True, now=0.0)
    assert sent(watch.feed(event("BAD", 1), 0.0)) == event("BAD", 1)
    assert sent(watch.feed(event("more", 2), 0.1)) == event("more", 2)
    watch.feed(event("", 2, finish="stop") + DONE, 0.2)
    watch.end(Ending.COMPLETE, 0.3)
    assert watch.outcome is Outcome.MARKED
    assert shared.counts["delivered_bad_tokens",] == 2


def test_requests_whose_ids_show_share_the_vocabulary_of_their_model() -> None:
    shared = desk()
    one, other = (monitor(at=shared, facts=RequestFacts("toy", model="m", shows_ids=True)) for _ in "ab")
    assert one._facts.vocabulary is other._facts.vocabulary is shared.vocabularies.of("m")
    assert monitor(at=shared)._facts.vocabulary is None
